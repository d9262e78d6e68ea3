package examples

import (
	"os"
	"testing"

	"authgate/e2e/world"
)

func TestMain(m *testing.M) { os.Exit(world.MainOfMany(m)) }
