// Command upstream serves the demonstration application of package upstream as a
// process of its own.
//
//	upstream [-listen ADDRESS]
//
// It believes every identity header, so it listens on a loopback address by
// default. SIGINT and SIGTERM stop it after its current requests. The exit status
// is 0 after a stop, 1 for a failure, and 2 for wrong usage.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"authgate/upstream"
)

// errUsage is a wrong command line that was already reported on stderr.
var errUsage = errors.New("wrong usage")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stderr)
	stop()
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "upstream:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends. It prints its address on stderr.
func run(ctx context.Context, args []string, stderr io.Writer) error {
	flags := flag.NewFlagSet("upstream", flag.ContinueOnError)
	flags.SetOutput(stderr)
	listen := flags.String("listen", "127.0.0.1:9000",
		"`address` to listen on; only the gateway must be able to reach it")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "upstream: unexpected argument %q; the address goes after -listen\n", flags.Arg(0))
		return errUsage
	}

	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return fmt.Errorf("listening on %s: %w", *listen, err)
	}
	fmt.Fprintf(stderr, "upstream: listening on http://%s\n", listener.Addr())
	return serveUntil(ctx, listener)
}

// serveUntil serves until ctx ends. Requests in progress then have ten seconds.
func serveUntil(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler:           upstream.Handler(),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serving: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		return fmt.Errorf("stopping: %w", err)
	}
	return nil
}
