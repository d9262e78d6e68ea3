package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"authgate/cmd/internal/control"
	"authgate/gateway"
	"authgate/gateway/login"
	"authgate/gateway/people/accounts"
	"authgate/gateway/proxy/web"
)

var errStopping = errors.New("the gateway is stopping")

// operator serves commands that need the running gateway.
type operator struct {
	*App
	stopped <-chan struct{} // closed when follow ends
}

// Reload implements control.Gateway.
func (o operator) Reload(ctx context.Context, users bool) ([]string, error) {
	done := make(chan outcome, 1)
	who := gateway.ByFile
	if users {
		who = gateway.ByOperator
	}
	select {
	case o.commands <- command{who, done}:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-o.stopped:
		return nil, errStopping
	}
	outcome := <-done // even if the command has ended: it runs
	return outcome.Changes, outcome.Err
}

// EachLogin implements control.Gateway.
func (o operator) EachLogin(ctx context.Context, f func(*control.Login) error) error {
	return o.gateway.Operators().EachLogin(ctx, func(l *login.UserLogin) error {
		listed := &control.Login{
			ID: l.ID, User: l.User, Mechanism: string(l.Mechanism), Provider: l.Provider,
			Created: l.Created.UTC(), LastUsed: l.LastUsed.UTC(), Expires: l.Expires.UTC(),
			UserAgent: l.Device.UserAgent,
		}
		if l.Device.Client.IsValid() {
			listed.Client = l.Device.Client.String()
		}
		return f(listed)
	})
}

// EndLogin implements control.Gateway.
func (o operator) EndLogin(ctx context.Context, id string) (bool, error) {
	return o.gateway.Operators().EndLogin(ctx, id)
}

// EndLoginsOf implements control.Gateway.
func (o operator) EndLoginsOf(ctx context.Context, user string) (int, error) {
	return o.gateway.Operators().EndLoginsOf(ctx, user)
}

// Invite implements control.Gateway.
func (o operator) Invite(ctx context.Context, username string) (string, error) {
	link, err := o.gateway.Operators().Invite(ctx, username)
	switch {
	case errors.Is(err, accounts.ErrNotInFile):
		err = fmt.Errorf("%w: it is not in accounts.file, or disabled", control.ErrNotInvited)
	case errors.Is(err, accounts.ErrNotWritable):
		err = fmt.Errorf("%w: the gateway cannot write accounts.file, which is to get the password",
			control.ErrNotInvited)
	}
	return link, err
}

// operate answers commands until ctx ends. A gateway without its socket runs on.
func (a *App) operate(ctx context.Context) {
	const without = "commands like reload and sessions do not reach this gateway"
	process := control.Process{PID: os.Getpid(), Version: a.version, Configuration: a.path}
	if path, err := filepath.Abs(a.path); err == nil {
		process.Configuration = path
	}
	server, err := control.Listen(a.Config().DataDir, process, operator{a, ctx.Done()},
		web.LibraryLog(a.logger.Handler(), slog.LevelWarn))
	if err != nil {
		a.logger.Warn(without, "error", err.Error())
		return
	}
	var serving errgroup.Group
	serving.Go(server.Serve)
	<-ctx.Done()
	if err := errors.Join(server.Close(), serving.Wait()); err != nil {
		a.logger.Warn("the socket for commands", "error", err.Error())
	}
}
