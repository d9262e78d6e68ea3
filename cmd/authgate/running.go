package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"authgate/cmd/internal/control"
	"authgate/gateway/config"
)

const (
	// findTime is how long commands wait for the gateways to say who they are.
	findTime = 10 * time.Second
	// answerTime is how long they wait for an answer. A reload of a hundred
	// thousand accounts takes a few seconds.
	answerTime = time.Minute
)

// gatewayFlags tell which running gateway a command is for.
type gatewayFlags struct {
	path *string
	pid  *int
}

func registerGateway(cmd *cobra.Command) gatewayFlags {
	return gatewayFlags{
		configFlagFor(cmd, "configuration file of the gateway, which names its data_dir"),
		cmd.Flags().Int("pid", 0, "process id of the gateway, if several have one data_dir"),
	}
}

// findGateway returns the running gateway. The configuration may have mistakes, as
// long as its data_dir can be read.
func (f gatewayFlags) findGateway(ctx context.Context) (*control.Client, error) {
	if *f.path == standardInput {
		return nil, &usageError{errors.New("this command is for a running gateway; give the file that it runs")}
	}
	dataDir, err := config.DataDir(*f.path)
	if problems, ok := errors.AsType[config.Diagnostics](err); ok {
		// Its mistakes are not those of the command.
		return nil, errors.New("the data_dir of the gateway is unknown:\n" + problems.Error())
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, findTime)
	defer cancel()
	return control.Find(ctx, dataDir, *f.pid)
}

// applyNow makes the gateways with a data_dir apply a file that has changed, and then calls also
// for each.
func applyNow(ctx context.Context, out io.Writer, dataDir, file string, also func(*control.Client) error) error {
	clients, err := control.All(ctx, dataDir)
	if err != nil {
		return fmt.Errorf("%s is written, and the gateway could not be told; it looks at the file by itself: %w",
			file, err)
	}
	if len(clients) == 0 {
		fmt.Fprintf(out, "No gateway runs with data_dir %s; it applies when one starts.\n", dataDir)
	}
	for _, client := range clients {
		if err := client.ApplyUsers(ctx); err != nil {
			if refused, ok := errors.AsType[*control.RefusedError](err); ok {
				return fmt.Errorf("%s is written, and the gateway (process %d) keeps the running configuration:\n%w",
					file, client.PID, refused)
			}
			return fmt.Errorf("%s is written; asking the gateway (process %d) to reload: %w", file, client.PID, err)
		}
		if err := also(client); err != nil {
			return err
		}
		fmt.Fprintf(out, "The gateway (process %d) has applied it.\n", client.PID)
	}
	return nil
}
