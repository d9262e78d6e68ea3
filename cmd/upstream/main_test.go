package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
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
		says string
		err  error
	}{
		"-h":                 {"127.0.0.1:9000", flag.ErrHelp},
		"-port 9":            {"-port", errUsage},
		":9000":              {"-listen", errUsage},
		"-listen " + address: {address, nil},
	} {
		var stderr strings.Builder
		err := run(t.Context(), strings.Fields(args), &stderr)
		if err == nil || want.err != nil && !errors.Is(err, want.err) || want.err == nil && errors.Is(err, errUsage) {
			t.Errorf("%s: %v, want %v", args, err, want.err)
		} else if said := stderr.String() + err.Error(); !strings.Contains(said, want.says) {
			t.Errorf("%s: it says %q, want %q in it", args, said, want.says)
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
