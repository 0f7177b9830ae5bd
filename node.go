package seckill

import "time"

// Node is a process that serves, as it last said of itself.
type Node struct {
	ID        string // Drawn by chance when it started.
	Address   string // Where it answers operators, host:port.
	Roles     []string
	Version   string
	StartedAt time.Time
	SeenAt    time.Time // When it last said so, by the database's clock.
	Ready     bool
	Reason    string // Why it is not ready.
	Stock     string // What it is set up with; no passwords.
	Queue     string
	Database  string
}
