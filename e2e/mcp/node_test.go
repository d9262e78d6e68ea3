package mcp

import (
	"testing"

	"authgate/e2e/world"
)

// TestToolsNode is TestToolsGo with the official SDK for TypeScript, version 2.
func TestToolsNode(t *testing.T) {
	t.Parallel()
	tourOf(t, world.FindProgram(t, "node"), "server.mjs", "agent.mjs")
}
