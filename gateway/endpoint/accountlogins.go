package endpoint

import (
	"context"
	"encoding/json"
	"errors"
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
	id, err := a.identity(ex)
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
	id, err := a.identity(ex)
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

// end is POST /account/sessions/end: it ends one login of the user, or all others.
func (a *accountLogins) end(ex *web.Exchange) error {
	id, err := a.changer(ex)
	if err != nil {
		return err
	}
	sid, err := readEnding(ex)
	if err != nil {
		return err
	}
	if sid == id.Login {
		return a.leaveHere(ex)
	}
	ctx, done := ex.Store.Recording()
	defer done()
	var ended []*login.Login
	if sid == "" {
		ended, err = a.overview.EndOthers(ctx, id)
	} else {
		var one *login.Login
		if one, err = a.overview.End(ctx, id, sid); one != nil {
			ended = append(ended, one)
		}
	}
	a.ended(ex, ended)
	if errors.Is(err, login.ErrNoLogin) {
		return &web.Error{Status: http.StatusNotFound, Detail: "You have no login with this id. It may have ended already.", Cause: err}
	}
	if err != nil {
		return err
	}
	if ex.MediaType() == web.TypeForm {
		done := doneOthers
		if sid != "" {
			done = doneLogin
		}
		a.done(ex, done)
		return nil
	}
	ex.JSON(web.TypeJSON, http.StatusOK, struct {
		Message string `json:"message"`
		Ended   int    `json:"ended"`
	}{"Ended.", len(ended)})
	return nil
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

// readEnding returns the id of the login to end, empty for all others.
func readEnding(ex *web.Exchange) (sid string, err error) {
	switch ex.MediaType() {
	case web.TypeForm:
		return endingOfForm(ex.Body)
	case web.TypeJSON:
		o, err := parseObject(ex.Body)
		if err != nil {
			return "", err
		}
		return endingOfObject(o)
	}
	return "", unsupportedMedia(web.TypeJSON + " or " + web.TypeForm)
}

// unclearEnding is the error of a body that does not say which logins to end.
func unclearEnding() error {
	return badOrder(`The body must have either the field "id", or the field "others" with the value true.`)
}

func endingOfForm(body []byte) (string, error) {
	values, err := url.ParseQuery(string(body))
	if err != nil {
		return "", unclearEnding()
	}
	ids, others := values["id"], values["others"]
	switch {
	case len(ids) == 1 && ids[0] != "" && len(others) == 0:
		return ids[0], nil
	case len(ids) == 0 && len(others) == 1 && others[0] == "true":
		return "", nil
	}
	return "", unclearEnding()
}

func endingOfObject(o object) (string, error) {
	_, one := o["id"]
	raw, others := o["others"]
	if one == others {
		return "", unclearEnding()
	}
	if one {
		sid, err := o.text("id")
		if err == nil && sid == "" {
			err = unclearEnding()
		}
		return sid, err
	}
	var all bool
	if err := json.Unmarshal(raw, &all); err != nil || !all {
		return "", unclearEnding()
	}
	return "", nil
}
