// Command demo runs the demonstration. It starts the bundled application, the
// bundled OpenID provider and the gateway of config.yaml, and prints what to try.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"authgate/cmd/internal/app"
	"authgate/upstream"
)

func main() {
	path := flag.String("config", "config.yaml", "configuration file")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, *path, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, path string, stdout io.Writer) error {
	a, err := app.Open(ctx, path, "demo", os.Stderr)
	if err != nil {
		return err
	}
	configured, ok := a.Config().Upstreams["resources"]
	if !ok {
		return fmt.Errorf("%s has no upstream called resources, which the demonstration starts", path)
	}
	resources := configured.URLs[0]
	listener, err := net.Listen("tcp", resources.Host)
	if err != nil {
		return fmt.Errorf("starting the upstream: %w", err)
	}
	defer serve("the upstream", listener, upstream.Handler()).Close()
	bundled, ok := bundledProvider(a.Config())
	if ok {
		stop, err := startProvider(a.Config(), bundled, slog.New(slog.NewJSONHandler(os.Stderr, nil)))
		if err != nil {
			return fmt.Errorf("starting the provider: %w", err)
		}
		defer stop()
	}
	explain(stdout, a, resources.String(), bundled.Issuer)
	return a.Run(ctx, nil)
}

// serve serves a listener until the caller closes the returned server.
func serve(what string, listener net.Listener, handler http.Handler) *http.Server {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			fmt.Fprintf(os.Stderr, "demo: %s stopped: %v\n", what, err)
		}
	}()
	return server
}

// explain prints the addresses and what to try first. An empty issuer means that
// the bundled provider does not run.
func explain(stdout io.Writer, a *app.App, resources, issuer string) {
	cfg := a.Config()
	ca := filepath.Join(cfg.DataDir, "ca.pem")
	if wd, err := os.Getwd(); err == nil {
		if relative, err := filepath.Rel(wd, ca); err == nil {
			ca = relative
		}
	}
	fmt.Fprintf(stdout, `
authgate runs in front of %[1]s

  gateway  %[2]s      (trust %[3]s, or click through the warning)
  metrics  http://%[4]s/metrics

Try:

  curl --cacert %[3]s -u service:s3rvice %[2]s/secret-resource
  curl --cacert %[3]s -c cookies.txt --json '{"username":"alice","password":"wonderland"}' %[2]s/login
  curl --cacert %[3]s -b cookies.txt %[2]s/admin-resource

Or open %[2]s/ in a browser: the page there leads through all four mechanisms.
`, resources, cfg.PublicURL, ca, cfg.Listen.Admin)
	if issuer != "" {
		fmt.Fprintf(stdout, `
For a delegated login at the OpenID provider on %[1]s, open

  %[2]s%[3]slogin?provider=%[4]s&return_to=/admin-resource

in a browser and sign in as alice with the password wonderland. %[1]s/logout
signs alice out of both.
`, issuer, cfg.PublicURL, cfg.Endpoints.Prefix, demoProvider)
	}
	fmt.Fprint(stdout, "\nCtrl-C stops everything.\n\n")
}
