package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

func TestServesUntilStopped(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reader, writer := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- run(ctx, []string{"-listen", "127.0.0.1:0"}, writer) }()

	line, err := bufio.NewReader(reader).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	_, base, found := strings.Cut(strings.TrimSpace(line), "listening on ")
	if !found {
		t.Fatalf("the first line is %q, want the address", line)
	}
	resp, err := http.Get(base + "/secret-resource")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("GET /secret-resource: %s, want 200", resp.Status)
	}

	cancel()
	if err := <-done; err != nil {
		t.Errorf("stopping: %v", err)
	}
	if resp, err := http.Get(base + "/secret-resource"); err == nil {
		resp.Body.Close()
		t.Error("it still answers after it has stopped")
	}
}

func TestRefuses(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() })
	tests := []struct {
		name  string
		args  []string
		usage bool
		says  string
	}{
		{"unknown flag", []string{"-port", "9"}, true, "-port"},
		{"an argument", []string{":9000"}, true, "-listen"},
		{"an address in use", []string{"-listen", taken.Addr().String()}, false, taken.Addr().String()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var stderr strings.Builder
			err := run(t.Context(), tt.args, &stderr)
			if err == nil {
				t.Fatal("it runs")
			}
			if errors.Is(err, errUsage) != tt.usage {
				t.Errorf("error %v: wrong usage %t, want %t", err, !tt.usage, tt.usage)
			}
			if said := stderr.String() + err.Error(); !strings.Contains(said, tt.says) {
				t.Errorf("it says %q, want %q in it", said, tt.says)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	var stderr strings.Builder
	if err := run(t.Context(), []string{"-h"}, &stderr); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("error %v, want flag.ErrHelp", err)
	}
	if !strings.Contains(stderr.String(), "127.0.0.1:9000") {
		t.Errorf("the help does not tell the default address:\n%s", &stderr)
	}
}
