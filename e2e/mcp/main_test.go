package mcp

import (
	"os"
	"testing"

	"authgate/e2e/world"
)

func TestMain(m *testing.M) { os.Exit(world.Main(m)) }
