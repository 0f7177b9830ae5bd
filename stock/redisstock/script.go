package redisstock

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by it.
	"embed"
	"encoding/hex"
)

//go:embed lua/*.lua
var sources embed.FS

// script is one Lua file. Its head says what it takes and answers.
type script struct {
	name string
	text string
	sha  string
}

// load reads a script, behind those that it builds on.
func newScript(name string, after ...string) *script {
	s := &script{name: name}
	for _, part := range append(after, name) {
		b, err := sources.ReadFile("lua/" + part + ".lua")
		if err != nil {
			panic(err) // It is in the binary or it is not.
		}
		s.text += string(b)
	}
	sum := sha1.Sum([]byte(s.text)) //nolint:gosec // Redis names scripts by it.
	s.sha = hex.EncodeToString(sum[:])
	return s
}

// The scripts.
var (
	reserveScript = newScript("reserve", "record")
	settleScript  = newScript("settle", "record")
	ackScript     = newScript("ack", "record", "message")
	queuedScript  = newScript("queued", "record", "message")
	loadScript    = newScript("load")
	openScript    = newScript("open")
	dropScript    = newScript("drop")
	controlScript = newScript("control")
	restockScript = newScript("restock", "record")
	statusScript  = newScript("status")
	giveScript    = newScript("give", "record")
	takeScript    = newScript("take", "record")
	forgetScript  = newScript("forget")
	leaveScript   = newScript("leave")
	keepScript    = newScript("keep")
	pullScript    = newScript("pull", "record", "taken")
	unhandScript  = newScript("unhand", "taken")
	aliveScript   = newScript("alive", "record")
	unlistScript  = newScript("unlist")
)
