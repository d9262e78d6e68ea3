// Package scripttest plays scripts, in which tests of many steps are short.
package scripttest

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"authgate/internal/test/must"
)

// Steps are what a script can say: a function for each first word. It gets the other words.
type Steps map[string]func(args []string)

// Play runs a script, whose steps are separated by semicolons. It calls after after each step.
func Play(t *testing.T, script string, steps Steps, after func()) {
	t.Helper()
	for step := range strings.SplitSeq(script, ";") {
		words := strings.Fields(step)
		do := steps[words[0]]
		if do == nil {
			t.Fatalf("no such step: %s", step)
		}
		t.Log(words)
		do(words[1:])
		after()
	}
}

// Repeat calls do once, or as the words N and TIME say: N times, with that time before each.
func Repeat(t *testing.T, args []string, do func(before time.Duration)) {
	t.Helper()
	n, before := 1, time.Duration(0)
	if len(args) > 0 {
		n, before = Number(t, args), Duration(t, args[1:])
	}
	for range n {
		do(before)
	}
}

// Number reads the first word.
func Number(t *testing.T, args []string) int {
	t.Helper()
	return must.Get(strconv.Atoi(args[0]))(t)
}

// Duration reads the first word.
func Duration(t *testing.T, args []string) time.Duration {
	t.Helper()
	return must.Get(time.ParseDuration(args[0]))(t)
}
