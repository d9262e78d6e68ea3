package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"authgate/cmd/internal/control"
	"authgate/gateway/config"
)

const (
	// findTime is how long commands wait for the gateways to say who they are.
	findTime = 10 * time.Second
	// answerTime is how long they wait for what they ask for. A reload of a hundred
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

// find returns the running gateway. The configuration may have mistakes, as long as
// its data_dir can be read.
func (f gatewayFlags) find(ctx context.Context) (*control.Client, error) {
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
