package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"authgate/cmd/internal/control"
)

func reloadCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Make the running gateway apply its configuration, and say what happened",
		Long: "Make the running gateway read its configuration again, and wait until that is\n" +
			"applied or refused. It prints what has changed, without secrets. If the\n" +
			"configuration is refused, the gateway keeps the running one. A gateway also sees\n" +
			"changes by itself.\n\n" +
			"The exit status is 0 if the configuration is applied, and 1 if it is refused or\n" +
			"no gateway runs. Run it as the user of the gateway.",
		Example: "  authgate reload --config /etc/authgate/config.yaml",
		Args:    noArguments,
	}
	which := registerGateway(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), answerTime)
		defer cancel()
		client, err := which.findGateway(ctx)
		if err != nil {
			return err
		}
		changes, err := client.Reload(ctx)
		if refused, ok := errors.AsType[*control.RefusedError](err); ok {
			return fmt.Errorf("%s is refused, and the running configuration is kept:\n%s",
				client.Configuration, refused.Reason)
		}
		if err != nil {
			return fmt.Errorf("asking the gateway (process %d) to reload: %w", client.PID, err)
		}
		out := cmd.OutOrStdout()
		if len(changes) == 0 {
			fmt.Fprintf(out, "%s is applied. Nothing has changed.\n", client.Configuration)
			return nil
		}
		fmt.Fprintf(out, "%s is applied. What has changed:\n", client.Configuration)
		for _, change := range changes {
			fmt.Fprintf(out, "  %s\n", printable(change))
		}
		return nil
	}
	return cmd
}
