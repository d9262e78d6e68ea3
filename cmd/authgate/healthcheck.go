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
	"authgate/gateway/proxy/server"
)

func healthcheckCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "healthcheck",
		Short: "Ask a running gateway whether it is ready",
		Long: "Request /readyz from the admin listener of the gateway with this configuration.\n" +
			"Another gateway that answers there is a failure.\n" +
			"This is for the HEALTHCHECK of a container without other programs.",
		Example: "  authgate healthcheck --config /etc/authgate/config.yaml",
		Args:    noArguments,
	}
	path := configOrInputFlag(cmd)
	wait := cmd.Flags().Duration("wait", 0, "how long to ask again while it is not ready, such as 10s")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, _, err := loadConfig(cmd, *path, config.Environment{})
		if err != nil {
			return err
		}
		if cfg.Listen.Admin == "" {
			return errors.New("listen.admin is off, so there is no listener to ask")
		}
		for end := time.Now().Add(*wait); ; time.Sleep(askAgain) {
			if err = askReady(cfg); err == nil || time.Until(end) <= 0 {
				break
			}
		}
		if err == nil {
			fmt.Fprintln(cmd.OutOrStdout(), "ready")
		}
		return err
	}
	return cmd
}

// askAgain is the time between two questions whether a gateway is ready.
const askAgain = 100 * time.Millisecond

// askReady returns an error unless the gateway with a configuration is ready.
func askReady(cfg *config.Config) error {
	client := &http.Client{Timeout: 3 * time.Second}
	response, err := client.Get("http://" + reachable(cfg.Listen.Admin) + "/readyz")
	if err != nil {
		return fmt.Errorf("no gateway answers at %s, or not yet: %w", cfg.Listen.Admin, err)
	}
	defer response.Body.Close()
	if name := response.Header.Get(server.InstanceHeader); name != server.InstanceOf(cfg.DataDir) {
		return fmt.Errorf("another program answers at %s, or a gateway with another data_dir than %s; "+
			"give each gateway its own listen.admin", cfg.Listen.Admin, cfg.DataDir)
	}
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(response.Body, 4096))
		return fmt.Errorf("not ready: %s", body)
	}
	return nil
}

// reachable returns the address to call for a listener on address. It replaces an
// unspecified host by localhost.
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
