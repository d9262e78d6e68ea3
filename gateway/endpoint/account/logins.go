package account

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"authgate/gateway/endpoint/bodies"
	"authgate/gateway/endpoint/signout"
	"authgate/gateway/login"
	"authgate/gateway/login/apitokens"
	"authgate/gateway/pages"
	"authgate/gateway/proxy/web"
	"authgate/policy"
)

// logins is /account, and /account/sessions and below: the user, and their logins.
type logins struct {
	page   *page
	logout *signout.Logout
}

// loginInfo describes one of their logins to a user.
type loginInfo struct {
	ID        string           `json:"id"`
	Current   bool             `json:"current"`
	Mechanism policy.Mechanism `json:"mechanism"`
	Provider  string           `json:"provider"`
	CreatedAt string           `json:"created_at"`
	LastUsed  string           `json:"last_used_at"`
	ExpiresAt string           `json:"expires_at"`
	Client    string           `json:"client"`     // an address, empty if unknown
	UserAgent string           `json:"user_agent"` // as the client said, empty if it did not
}

// infos returns the live logins of the user, the current one first.
func (l *logins) infos(ex *web.Exchange, id *policy.Identity) ([]loginInfo, error) {
	all, err := l.page.logins(ex, id)
	if err != nil {
		return nil, err
	}
	infos := []loginInfo{}
	for _, live := range all {
		info := loginInfo{
			ID: live.ID, Current: live.ID == id.Login, Mechanism: live.Mechanism, Provider: live.Provider,
			CreatedAt: timeText(live.Created), LastUsed: timeText(live.LastUsed), ExpiresAt: timeText(live.Expires),
			UserAgent: live.Device.UserAgent,
		}
		if live.Device.Client.IsValid() {
			info.Client = live.Device.Client.String()
		}
		infos = append(infos, info)
	}
	return infos, nil
}

// list is GET /account/sessions.
func (l *logins) list(ex *web.Exchange) error {
	id, err := l.page.options.Reader(ex)
	if err != nil {
		return err
	}
	infos, err := l.infos(ex, id)
	if err != nil {
		return err
	}
	ex.JSON(web.TypeJSON, http.StatusOK, map[string][]loginInfo{"sessions": infos})
	return nil
}

// serve is GET /account: the user and their logins. A browser gets the page of a part, or has to
// sign in first.
func (l *logins) serve(ex *web.Exchange) error {
	id, err := l.page.options.PageReader(ex)
	if err != nil {
		return err
	}
	if web.Negotiate(ex.Request) == web.TypeHTML {
		part := l.page.part(ex, id)
		return l.page.write(ex, id, http.StatusOK, part, func(view *pages.Manage) { view.Notice = l.page.notice(ex) })
	}
	infos, err := l.infos(ex, id)
	if err != nil {
		return err
	}
	ex.JSON(web.TypeJSON, http.StatusOK, struct {
		person
		Sessions []loginInfo `json:"sessions"`
	}{newPerson(id), infos})
	return nil
}

// endLogin is POST /account/sessions/end: it ends one login of the user, or all others, and
// with them the API tokens.
func (l *logins) endLogin(ex *web.Exchange) error {
	id := ex.Identity
	order, err := readEnding(ex)
	if err != nil {
		return err
	}
	if order.sid == id.Login {
		return l.logout.Here(ex, ex.MediaType() == web.TypeForm)
	}
	ctx, done := ex.Store.Recording()
	defer done()
	answer := endingAnswer{Message: "Ended."}
	if order.sid != "" {
		err = l.endOne(ctx, ex, order.sid)
		answer.Ended = 1
	} else {
		answer.Ended, err = l.endOthers(ctx, ex)
	}
	if err == nil && order.tokens {
		answer.Tokens, err = l.endTokens(ctx, ex, id)
	}
	if err != nil {
		return err
	}
	if ex.MediaType() == web.TypeForm {
		l.page.done(ex, order.done())
		return nil
	}
	ex.JSON(web.TypeJSON, http.StatusOK, answer)
	return nil
}

// endingAnswer tells how many logins and API tokens have ended.
type endingAnswer struct {
	Message string `json:"message"`
	Ended   int    `json:"ended"`
	Tokens  int    `json:"tokens,omitempty"`
}

func (l *logins) endOne(ctx context.Context, ex *web.Exchange, sid string) error {
	ended, err := l.page.overview.End(ctx, ex.Identity, sid)
	if ended != nil {
		l.logout.Ended(ex, []*login.Login{ended})
	}
	if errors.Is(err, login.ErrNoLogin) {
		return &web.Error{
			Status: http.StatusNotFound, Detail: "You have no login with this id. It may have ended already.",
			Cause: err,
		}
	}
	return err
}

func (l *logins) endOthers(ctx context.Context, ex *web.Exchange) (int, error) {
	ended, err := l.page.overview.EndOthers(ctx, ex.Identity)
	l.logout.Ended(ex, ended)
	return len(ended), err
}

// endTokens revokes the API tokens of the user. It comes after the logins: a login
// that makes a token at the same time finds out that it has ended, and takes the
// token back.
func (l *logins) endTokens(ctx context.Context, ex *web.Exchange, id *policy.Identity) (int, error) {
	owner, err := l.page.tokens.Owner(ctx, id)
	if errors.Is(err, apitokens.ErrNoOwner) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	revoked, err := l.page.tokens.RevokeAll(ctx, owner)
	for _, token := range revoked {
		ex.Audit("token_revoked", slog.String("token", token))
	}
	return len(revoked), err
}

// ending names the logins that a user wants to end.
type ending struct {
	sid    string // of one login; empty: all others
	tokens bool   // the API tokens too
}

// done returns the notice of the page about it.
func (e *ending) done() string {
	switch {
	case e.sid != "":
		return doneLogin
	case e.tokens:
		return doneEverywhere
	}
	return doneOthers
}

func readEnding(ex *web.Exchange) (*ending, error) {
	if ex.MediaType() == web.TypeForm {
		return endingOfForm(ex.Body)
	}
	o, err := bodies.ReadObject(ex, bodies.OrForm)
	if err != nil {
		return nil, err
	}
	return endingOfObject(o)
}

// unclearEnding is the error of a body that does not say which logins to end.
func unclearEnding() error {
	return web.BadRequest(`The body must have either the field "id", or the field "others" with the value true. `+
		`Beside "others", the field "tokens" can be true or false.`, nil)
}

func endingOfForm(body []byte) (*ending, error) {
	values, err := bodies.ParseForm(body)
	if err != nil {
		return nil, unclearEnding()
	}
	ids, others, tokens := values["id"], values["others"], values["tokens"]
	one := len(ids) == 1 && ids[0] != "" && len(others)+len(tokens) == 0
	all := len(ids) == 0 && len(others) == 1 && others[0] == "true"
	switch {
	case one:
		return &ending{sid: ids[0]}, nil
	case all && (len(tokens) == 0 || len(tokens) == 1 && tokens[0] == "false"):
		return &ending{}, nil
	case all && len(tokens) == 1 && tokens[0] == "true":
		return &ending{tokens: true}, nil
	}
	return nil, unclearEnding()
}

func endingOfObject(o bodies.Object) (*ending, error) {
	_, others := o["others"]
	_, tokens := o["tokens"]
	if _, one := o["id"]; one {
		sid, err := o.Text("id")
		if err == nil && (sid == "" || others || tokens) {
			err = unclearEnding()
		}
		return &ending{sid: sid}, err
	}
	all, err := o.Flag("others")
	withTokens, unclear := o.Flag("tokens")
	if !all || err != nil || unclear != nil {
		return nil, unclearEnding()
	}
	return &ending{tokens: withTokens}, nil
}
