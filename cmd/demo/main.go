// Command demo runs the demonstration: the bundled application, the gateway of
// config.yaml in front of it, and the gateway of provider.yaml, which is the
// OpenID provider of the first. It prints addresses to try.
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
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"authgate/cmd/internal/app"
	"authgate/cmd/internal/systemd"
	"authgate/upstream"
)

func main() {
	path := flag.String("config", "config.yaml", "configuration file; provider.yaml is beside it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, *path, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, path string, stdout io.Writer) error {
	app.OutliveReaders()
	providerPath := filepath.Join(filepath.Dir(path), "provider.yaml")
	if err := shareAuthority(path, providerPath); err != nil {
		return fmt.Errorf("making the authority for certificates: %w", err)
	}
	gateway, err := app.Open(ctx, path, "demo", os.Stderr, systemd.Service{})
	if err != nil {
		return err
	}
	provider, err := app.Open(ctx, providerPath, "demo", os.Stderr, systemd.Service{})
	if err != nil {
		return err
	}
	configured, ok := gateway.Config().Upstreams["resources"]
	if !ok {
		return fmt.Errorf("%s has no upstream called resources, which the demonstration starts", path)
	}
	resources := configured.URLs[0]
	listener, err := net.Listen("tcp", resources.Host)
	if err != nil {
		return fmt.Errorf("starting the upstream: %w", err)
	}
	defer serveUpstream(listener, upstream.Handler()).Close()
	explain(stdout, gateway, provider, resources.String())
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error { return gateway.Run(ctx, nil) })
	both.Go(func() error { return provider.Run(ctx, nil) })
	return both.Wait()
}

// serveUpstream serves the upstream until the caller closes the returned server.
func serveUpstream(listener net.Listener, handler http.Handler) *http.Server {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			fmt.Fprintf(os.Stderr, "demo: the upstream stopped: %v\n", err)
		}
	}()
	return server
}

// explain prints the addresses and first things to try.
func explain(stdout io.Writer, gateway, provider *app.App, resources string) {
	cfg := gateway.Config()
	ca := filepath.Join(cfg.DataDir, caFile)
	if wd, err := os.Getwd(); err == nil {
		if relative, err := filepath.Rel(wd, ca); err == nil {
			ca = relative
		}
	}
	fmt.Fprintf(stdout, `
authgate runs in front of %[1]s

  gateway   %[2]s      (trust %[3]s, or click through the warning)
  provider  %[4]s      (a second authgate)
  metrics   http://%[5]s/metrics

Try:

  curl --cacert %[3]s -u service:s3rvice %[2]s/secret-resource
  curl --cacert %[3]s -c cookies.txt --json '{"username":"alice","password":"wonderland"}' %[2]s/login
  curl --cacert %[3]s -b cookies.txt %[2]s/admin-resource

Or open %[2]s/ in a browser: the page there leads through all four mechanisms.

For a delegated login at the provider, open

  %[2]s%[6]slogin?provider=demo&return_to=/admin-resource

in a browser and sign in as alice with the password wonderland. %[4]s/logout
signs alice out of both.

Ctrl-C stops everything.

`, resources, cfg.PublicURL, ca, provider.Config().PublicURL, cfg.Listen.Admin, cfg.Endpoints.Prefix)
}
