package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"authgate/gateway/config"
)

func healthcheckCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "healthcheck",
		Short: "Ask a running gateway whether it is ready",
		Long:  "Ask the admin listener of the gateway that runs on this configuration for /readyz.\nFor the HEALTHCHECK of a container, which has no other program to ask with.",
		Args:  usage(cobra.NoArgs),
	}
	path := configFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := config.Load(*path)
		if err != nil {
			return err
		}
		if cfg.Listen.Admin == "" {
			return errors.New("listen.admin is off, so there is nobody to ask")
		}
		client := &http.Client{Timeout: 3 * time.Second}
		response, err := client.Get("http://" + reachable(cfg.Listen.Admin) + "/readyz")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			body, _ := io.ReadAll(io.LimitReader(response.Body, 4096))
			return fmt.Errorf("not ready: %s", body)
		}
		fmt.Fprintln(cmd.OutOrStdout(), "ready")
		return nil
	}
	return cmd
}

// reachable is the address to call for a listener on address: one that
// listens everywhere is called on loopback.
func reachable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	if ip, err := netip.ParseAddr(host); host == "" || (err == nil && ip.IsUnspecified()) {
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}
