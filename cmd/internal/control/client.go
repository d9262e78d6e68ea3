package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// errNone: no gateway runs.
var errNone = errors.New("no gateway runs")

// RefusedError is why a gateway refuses the request of a command.
type RefusedError struct {
	Status int // of HTTP
	Reason string
}

func (e *RefusedError) Error() string { return e.Reason }

// Client talks to one gateway.
type Client struct {
	Process
	path string
	http *http.Client
}

// Find returns a client for the gateway with a data_dir. If several run, pid chooses one;
// 0 chooses none.
func Find(ctx context.Context, dataDir string, pid int) (*Client, error) {
	all, err := clients(ctx, Folder(dataDir))
	if err != nil {
		return nil, err
	}
	pids, chosen := make([]string, len(all)), []*Client{}
	for i, c := range all {
		if pids[i] = strconv.Itoa(c.PID); pid == 0 || c.PID == pid {
			chosen = append(chosen, c)
		}
	}
	switch {
	case len(chosen) == 1:
		return chosen[0], nil
	case len(all) == 0:
		return nil, fmt.Errorf("%w with data_dir %s", errNone, dataDir)
	case len(chosen) == 0:
		return nil, fmt.Errorf("%w with data_dir %s as process %d; processes that run: %s", errNone, dataDir, pid,
			strings.Join(pids, ", "))
	}
	return nil, fmt.Errorf("%d gateways run with data_dir %s; choose one with --pid: %s", len(chosen), dataDir,
		strings.Join(pids, ", "))
}

// All returns a client for each gateway with a data_dir, in the order of their process ids.
func All(ctx context.Context, dataDir string) ([]*Client, error) {
	return clients(ctx, Folder(dataDir))
}

// clients returns a client for each gateway that answers in a folder, in the order
// of their process ids.
func clients(ctx context.Context, folder string) ([]*Client, error) {
	paths, err := sockets(folder)
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("%w; run the command as the user of the gateway", err)
	}
	if err != nil {
		return nil, err
	}
	var all []*Client
	for _, path := range paths {
		c := newClient(path)
		err := c.call(ctx, http.MethodGet, "/process", &c.Process)
		switch {
		case err == nil:
			all = append(all, c)
		case errors.Is(err, fs.ErrPermission):
			return nil, fmt.Errorf("%w; run the command as the user of the gateway", err)
		case !isDead(err):
			return nil, fmt.Errorf("asking the gateway at %s: %w", path, err)
		}
	}
	slices.SortFunc(all, func(a, b *Client) int { return cmp.Compare(a.PID, b.PID) })
	return all, nil
}

func newClient(path string) *Client {
	return &Client{path: path, http: &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, path) },
	}}}
}

// send sends a request. The error is a *RefusedError if the gateway refuses it.
func (c *Client) send(ctx context.Context, method, path string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://gateway"+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := c.http.Do(request)
	if err != nil {
		if cause, ok := errors.AsType[*url.Error](err); ok {
			err = cause.Err // without the address, which says nothing
		}
		return nil, err
	}
	if response.StatusCode < http.StatusBadRequest {
		return response, nil
	}
	defer response.Body.Close()
	var why refusal
	if err := json.NewDecoder(response.Body).Decode(&why); err != nil {
		return nil, fmt.Errorf("the gateway answers %s: %w", response.Status, err)
	}
	return nil, &RefusedError{response.StatusCode, why.Error}
}

// call sends a request and decodes the answer, if into is not nil.
func (c *Client) call(ctx context.Context, method, path string, into any) error {
	response, err := c.send(ctx, method, path)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if into == nil {
		return nil
	}
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		return fmt.Errorf("the gateway ended before it answered: %w", err)
	}
	return nil
}

// Reload makes the gateway read its configuration again, and returns the
// changes. The error is a *RefusedError if the running configuration is kept.
func (c *Client) Reload(ctx context.Context) (changes []string, err error) {
	var done reloaded
	err = c.call(ctx, http.MethodPost, "/reload", &done)
	return done.Changes, err
}

// ApplyUsers is Reload after a command has changed accounts.
func (c *Client) ApplyUsers(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, "/reload?users=true", &reloaded{})
}

// EndLogin ends a login. The error is a *RefusedError with status 404 if there is
// none with this id.
func (c *Client) EndLogin(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, "/logins?"+url.Values{"id": {id}}.Encode(), nil)
}

// EndLoginsOf ends all logins of a user, and returns how many there were. user is a local account,
// or PROVIDER:NAME.
func (c *Client) EndLoginsOf(ctx context.Context, user string) (n int, err error) {
	var done ended
	err = c.call(ctx, http.MethodDelete, "/users/logins?"+url.Values{"user": {user}}.Encode(), &done)
	return done.Ended, err
}

// Invite makes an invitation for a local account, and returns its link. The error is a
// *RefusedError if the gateway does not invite it.
func (c *Client) Invite(ctx context.Context, username string) (link string, err error) {
	var made invited
	err = c.call(ctx, http.MethodPost, "/accounts/invitation?"+url.Values{"user": {username}}.Encode(), &made)
	return made.Link, err
}

// EachLogin calls f for each live login, as the gateway lists them.
func (c *Client) EachLogin(ctx context.Context, f func(*Login) error) error {
	response, err := c.send(ctx, http.MethodGet, "/logins")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	for lines := json.NewDecoder(response.Body); ; {
		var next line
		err := lines.Decode(&next)
		switch {
		case err != nil:
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return fmt.Errorf("the gateway ended before the list: %w", err)
		case next.Error != "":
			return &RefusedError{http.StatusServiceUnavailable, next.Error}
		case next.End:
			return nil
		case next.Login == nil:
			return errors.New("the gateway answers with an empty line")
		}
		if err := f(next.Login); err != nil {
			return err
		}
	}
}
