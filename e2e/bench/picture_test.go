package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

// TestDraw: each row over the floor has a bar as long as its ratio, and the picture is XML.
func TestDraw(t *testing.T) {
	t.Parallel()
	idle := rounds("idle", 1)
	idle.task.load = nil
	other := rounds("another", 1)
	other.other = "Caddy"
	plain := rounds("A & B", 2)
	plain.most = 0
	picture := string(draw([]series{rounds("session", 0.5), plain, idle, other}))
	for decoder := xml.NewDecoder(strings.NewReader(picture)); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, picture)
		}
	}
	for text, want := range map[string]int{
		"<rect": 2, `class="own" x="250" y="10" width="108"`: 1, ">0.50<": 1, "A &amp; B": 1,
		`class="bar" x="250" y="42" width="430"`: 1, `x1="465"`: 1, "idle": 0, "another": 0,
	} {
		if n := strings.Count(picture, text); n != want {
			t.Errorf("%q is there %d times, want %d, in\n%s", text, n, want, picture)
		}
	}
}
