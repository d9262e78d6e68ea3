package mcp

import (
	"testing"

	"authgate/e2e/world"
)

// TestToolsPython is TestToolsGo with the official SDK for Python.
func TestToolsPython(t *testing.T) {
	t.Parallel()
	tourOf(t, world.FindProgram(t, "./venv/bin/python"), "server.py", "agent.py")
}
