package endpoint

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/sync/errgroup"

	"authgate/gateway/auth"
	"authgate/gateway/login"
	"authgate/gateway/pages"
	"authgate/gateway/web"
	"authgate/policy"
)

const (
	// othersTime bounds how long the providers of ended logins have to end them too,
	// and othersAtOnce how many logins are ended there side by side.
	othersTime   = 10 * time.Second
	othersAtOnce = 16
)

// accountLogins is /account, and /account/sessions and below: the user, and their
// logins.
type accountLogins struct {
	*accountPage
	leave *logout
}

// loginInfo is what a user sees of one of their logins.
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
func (a *accountLogins) infos(ex *web.Exchange, id *policy.Identity) ([]loginInfo, error) {
	all, err := a.logins(ex, id)
	if err != nil {
		return nil, err
	}
	infos := []loginInfo{}
	for _, l := range all {
		info := loginInfo{
			ID: l.ID, Current: l.ID == id.Login, Mechanism: l.Mechanism, Provider: l.Provider,
			CreatedAt: timeText(l.Created), LastUsed: timeText(l.LastUsed), ExpiresAt: timeText(l.Expires),
			UserAgent: l.Device.UserAgent,
		}
		if l.Device.Client.IsValid() {
			info.Client = l.Device.Client.String()
		}
		infos = append(infos, info)
	}
	return infos, nil
}

// list is GET /account/sessions.
func (a *accountLogins) list(ex *web.Exchange) error {
	id, err := a.reader(ex)
	if err != nil {
		return err
	}
	logins, err := a.infos(ex, id)
	if err != nil {
		return err
	}
	ex.JSON(web.TypeJSON, http.StatusOK, map[string][]loginInfo{"sessions": logins})
	return nil
}

// serve is GET /account: the user and their logins. A browser gets a page, or has to
// sign in first.
func (a *accountLogins) serve(ex *web.Exchange) error {
	id, err := a.reader(ex)
	if errors.Is(err, auth.ErrNoCredentials) && ex.PageLoad() && ex.SignIn != nil {
		place := ex.SignInPlace(ex.SignIn.Page, web.Return{Path: ex.Target()})
		if ex.HasStale() {
			place = web.WithParameter(place, web.ReasonField, web.ReasonEnded)
		}
		ex.ClearStale()
		ex.Decision = web.DecisionChallenge
		ex.Redirect(http.StatusFound, place)
		return nil
	}
	if err != nil {
		return err
	}
	if web.Negotiate(ex.Request) == web.TypeHTML {
		return a.write(ex, id, http.StatusOK, func(page *pages.Manage) { page.Notice = a.notice(ex) })
	}
	logins, err := a.infos(ex, id)
	if err != nil {
		return err
	}
	ex.JSON(web.TypeJSON, http.StatusOK, struct {
		person
		Sessions []loginInfo `json:"sessions"`
	}{newPerson(id), logins})
	return nil
}

// end is POST /account/sessions/end: it ends one login of the user, or all others, and
// with them the API tokens.
func (a *accountLogins) end(ex *web.Exchange) error {
	id := ex.Identity
	order, err := readEnding(ex)
	if err != nil {
		return err
	}
	if order.sid == id.Login {
		return a.leaveHere(ex)
	}
	ctx, done := ex.Store.Recording()
	defer done()
	answer := endingAnswer{Message: "Ended."}
	if order.sid != "" {
		err = a.endOne(ctx, ex, order.sid)
		answer.Ended = 1
	} else {
		answer.Ended, err = a.endOthers(ctx, ex)
	}
	if err == nil && order.tokens {
		answer.Tokens, err = a.endTokens(ctx, ex, id)
	}
	if err != nil {
		return err
	}
	if ex.MediaType() == web.TypeForm {
		a.done(ex, order.done())
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

func (a *accountLogins) endOne(ctx context.Context, ex *web.Exchange, sid string) error {
	ended, err := a.overview.End(ctx, ex.Identity, sid)
	if ended != nil {
		a.ended(ex, []*login.Login{ended})
	}
	if errors.Is(err, login.ErrNoLogin) {
		return &web.Error{Status: http.StatusNotFound, Detail: "You have no login with this id. It may have ended already.", Cause: err}
	}
	return err
}

func (a *accountLogins) endOthers(ctx context.Context, ex *web.Exchange) (int, error) {
	ended, err := a.overview.EndOthers(ctx, ex.Identity)
	a.ended(ex, ended)
	return len(ended), err
}

// endTokens revokes the API tokens of the user. It comes after the logins: a login
// that makes a token at the same time finds out that it has ended, and takes the
// token back.
func (a *accountLogins) endTokens(ctx context.Context, ex *web.Exchange, id *policy.Identity) (int, error) {
	owner, err := a.tokens.Owner(ctx, id)
	if errors.Is(err, login.ErrNoTokenOwner) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	revoked, err := a.tokens.RevokeAll(ctx, owner)
	for _, token := range revoked {
		ex.Audit("token_revoked", slog.String("token", token))
	}
	return len(revoked), err
}

// leaveHere ends the login of the request itself, and what else its cookies open, as a
// logout does.
func (a *accountLogins) leaveHere(ex *web.Exchange) error {
	ended, err := a.leave.out.endLogins(ex)
	redirect := a.leave.endAtProvider(context.WithoutCancel(ex.Request.Context()), ex, ended)
	if err != nil {
		return err
	}
	a.leave.answer(ex, redirect, ex.MediaType() == web.TypeForm)
	return nil
}

// ended counts and logs logins that were ended from here, and signs them out at their
// providers, as far as that needs no browser.
func (a *accountLogins) ended(ex *web.Exchange, logins []*login.Login) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ex.Request.Context()), othersTime)
	defer cancel()
	var all errgroup.Group
	all.SetLimit(othersAtOnce)
	for _, l := range logins {
		a.leave.out.note(ex, l)
		if l.Delegated != nil {
			all.Go(func() error {
				a.leave.endAtProvider(ctx, ex, l)
				return nil
			})
		}
	}
	_ = all.Wait()
}

// ending is what a user wants to end.
type ending struct {
	sid    string // of one login; empty: all others
	tokens bool   // the API tokens too
}

// done returns what the page says about it.
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
	switch ex.MediaType() {
	case web.TypeForm:
		return endingOfForm(ex.Body)
	case web.TypeJSON:
		o, err := parseObject(ex.Body)
		if err != nil {
			return nil, err
		}
		return endingOfObject(o)
	}
	return nil, unsupportedMedia(web.TypeJSON + " or " + web.TypeForm)
}

// unclearEnding is the error of a body that does not say which logins to end.
func unclearEnding() error {
	return badOrder(`The body must have either the field "id", or the field "others" with the value true. ` +
		`Beside "others", the field "tokens" can be true or false.`)
}

func endingOfForm(body []byte) (*ending, error) {
	values, err := url.ParseQuery(string(body))
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

func endingOfObject(o object) (*ending, error) {
	_, one := o["id"]
	_, others := o["others"]
	_, tokens := o["tokens"]
	if one {
		sid, err := o.text("id")
		if err == nil && (sid == "" || others || tokens) {
			err = unclearEnding()
		}
		return &ending{sid: sid}, err
	}
	all, ok := o.truth("others")
	withTokens := false
	if ok && tokens {
		withTokens, ok = o.truth("tokens")
	}
	if !ok || !all {
		return nil, unclearEnding()
	}
	return &ending{tokens: withTokens}, nil
}
