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
	Stock     string // "ok", or what is wrong with it as this node sees it.
	Queue     string
	Database  string
	Figures   string // What it measured in the last second, as JSON of internal/live; "" if nothing.
}
