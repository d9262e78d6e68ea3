package main

import (
	"bufio"
	"context"
	"errors"
	"io"
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
	_, base, found := strings.Cut(strings.TrimSpace(line), "listening on ")
	if err != nil || !found {
		t.Fatalf("the first line is %q (%v), want the address", line, err)
	}
	resp, err := http.Get(base + "/secret-resource")
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body.Close(); resp.StatusCode != http.StatusOK {
		t.Errorf("GET /secret-resource: %s, want 200", resp.Status)
	}
	address := strings.TrimPrefix(base, "http://") // in use
	for args, want := range map[string]struct {
		says  string
		usage bool
	}{"-port 9": {"-port", true}, ":9000": {"-listen", true}, "-listen " + address: {address, false}} {
		var stderr strings.Builder
		err := run(t.Context(), strings.Fields(args), &stderr)
		if err == nil || errors.Is(err, errUsage) != want.usage || !strings.Contains(stderr.String()+err.Error(), want.says) {
			t.Errorf("%s: %v and %q, want %q", args, err, &stderr, want.says)
		}
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
