package signout

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"golang.org/x/sync/errgroup"

	"authgate/gateway/identity/auth"
	"authgate/gateway/login"
	"authgate/gateway/proxy/web"
)

// Presented finds and ends the logins that the cookies of a request lead to.
type Presented struct {
	options *Options
	metrics *web.Metrics
}

// handle is a cookie that leads to a login.
type handle struct {
	value   string // empty if the request has no such cookie
	loginOf func(context.Context, string) (string, error)
}

// handles are the cookies that lead to logins, but for the access token.
func (p *Presented) handles(creds *auth.Credentials) []handle {
	handles := []handle{
		{creds.Session, sessionOf(p.options.Users.Sessions, creds)}, {creds.Refresh, p.options.Refresh.LoginOf},
	}
	if delegated := p.options.Users.Delegated; delegated != nil {
		handles = append(handles, handle{creds.Delegated, sessionOf(delegated, creds)})
	}
	return handles
}

func sessionOf(sessions *login.Sessions, creds *auth.Credentials) func(context.Context, string) (string, error) {
	return func(ctx context.Context, _ string) (string, error) { return sessions.LoginOf(ctx, creds) }
}

// BehindCookies returns the sids of the logins behind the cookies, as far as they
// are known.
func (p *Presented) BehindCookies(ctx context.Context, creds *auth.Credentials) ([]string, error) {
	return loginsOf(ctx, append(p.handles(creds), handle{creds.Access, p.options.Tokens.LoginOf}))
}

// loginsOf returns the sids of the logins that handles lead to, each once. It
// looks up all of them side by side. A handle that opens nothing leads to none.
func loginsOf(ctx context.Context, handles []handle) ([]string, error) {
	found := make([]string, len(handles))
	var all errgroup.Group
	for i, h := range handles {
		if h.value == "" {
			continue
		}
		all.Go(func() error {
			sid, err := h.loginOf(ctx, h.value)
			if err == nil {
				found[i] = sid
			}
			if errors.Is(err, auth.ErrRejected) {
				return nil
			}
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return nil, err
	}
	var sids []string
	for _, sid := range found {
		if sid != "" && !slices.Contains(sids, sid) {
			sids = append(sids, sid)
		}
	}
	return sids, nil
}

// endLogins ends the logins that the cookies lead to. It returns the one of those that was at an
// identity provider, also beside an error; nil: none was.
func (p *Presented) endLogins(ex *web.Exchange) (delegated *login.Login, err error) {
	ctx, end := ex.Store.Recording()
	defer end()
	if delegated, err = p.endHandles(ctx, ex, ""); err != nil {
		return delegated, err
	}
	return delegated, p.endAccessCookie(ctx, ex)
}

// NoteReplaced counts and logs the ends of the logins that a new one has replaced.
func (p *Presented) NoteReplaced(ex *web.Exchange, begun *login.Login) {
	for _, ended := range begun.Replaced {
		p.note(ex, ended)
	}
}

// EndOthers is end for all logins but the one with the given sid.
func (p *Presented) EndOthers(ctx context.Context, ex *web.Exchange, sid string) error {
	if _, err := p.endHandles(ctx, ex, sid); err != nil {
		return err
	}
	access, err := loginsOf(ctx, []handle{{ex.Credentials.Access, p.options.Tokens.LoginOf}})
	if err != nil || slices.Contains(access, sid) {
		return err
	}
	return p.endAccessCookie(ctx, ex)
}

// endHandles ends the logins behind the cookies, side by side, but not the one
// of that sid.
func (p *Presented) endHandles(
	ctx context.Context, ex *web.Exchange, but string,
) (delegated *login.Login, err error) {
	sids, err := loginsOf(ctx, p.handles(&ex.Credentials))
	if err != nil {
		return nil, err
	}
	sids = slices.DeleteFunc(sids, func(sid string) bool { return sid == but })
	ended := make([]*login.Login, len(sids))
	var all errgroup.Group
	for i, sid := range sids {
		all.Go(func() (err error) {
			ended[i], err = p.options.Users.Logins.End(ctx, sid)
			return err
		})
	}
	err = all.Wait()
	for _, login := range ended {
		if login == nil {
			continue
		}
		p.note(ex, login)
		if login.Delegated != nil {
			delegated = login
		}
	}
	return delegated, err
}

// note counts and logs the end of a login.
func (p *Presented) note(ex *web.Exchange, ended *login.Login) {
	if ended.HasTokens() {
		p.metrics.Token(web.TokenRevoked)
	}
	ex.Audit("logout", slog.String("subject", ended.Subject()), slog.String("login", ended.ID))
}

func (p *Presented) endAccessCookie(ctx context.Context, ex *web.Exchange) error {
	if ex.Credentials.Access == "" {
		return nil
	}
	// The cookie holds only tokens of the gateway's own.
	id, err := p.options.Tokens.Revoke(ctx, ex.Credentials.Access)
	if errors.Is(err, auth.ErrRejected) {
		return nil
	}
	if err != nil {
		return err
	}
	ex.Identify(id)
	p.metrics.Token(web.TokenRevoked)
	ex.Audit("logout")
	return nil
}
