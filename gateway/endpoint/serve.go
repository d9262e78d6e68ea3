package endpoint

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"authgate/gateway/proxy/web"
	"authgate/policy"
)

// Serve answers a request to the endpoint. The error may be web.ErrAnswered.
func (e *Endpoint) Serve(ex *web.Exchange) error {
	err := e.serveRow(ex)
	ex.AuditRefusal(err)
	return err
}

func (e *Endpoint) serveRow(ex *web.Exchange) error {
	ex.Label, ex.SignIn, ex.TellsSignIn = e.label, e.signIn, e.tells
	e.SetErrorForm(ex)
	method := ex.Canonical.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	row, ok := e.rows[method]
	if err := e.elsewhere(ex, &row); err != nil {
		return err
	}
	if ex.WorkerScript() {
		return web.NoServiceWorker("the path is an own endpoint's")
	}
	if err := ex.ReadBody(); err != nil {
		return err
	}
	if e.admins {
		if err := e.conceal(ex); err != nil {
			return err
		}
	}
	if !ok {
		return e.notAllowed()
	}
	if method != http.MethodGet && !row.AnyOrigin {
		if err := e.options.CrossSite.CheckOrigin(ex); err != nil {
			return err
		}
	}
	if row.Enabled != nil {
		if err := row.Enabled(); err != nil {
			return err
		}
	}
	err := e.do(ex, &row)
	if _, stale := errors.AsType[*staleError](err); stale {
		err = e.do(ex, &row)
	}
	if _, stale := errors.AsType[*staleError](err); stale {
		err = web.Unavailable(err)
	}
	return err
}

// do answers a user who may make the request.
func (e *Endpoint) do(ex *web.Exchange, row *Row) error {
	if err := e.admit(ex, row); err != nil {
		return err
	}
	ex.Decision = web.DecisionAllow // unless there is an error
	return row.Do(ex)
}

// Stale returns the error of a Row.Do for which something has ended that it had found: the login of
// the user, a consent. Serve begins again, once, so that the answer is that of a moment later. Do
// must have answered nothing.
func Stale(cause error) error { return &staleError{cause} }

type staleError struct{ error }

func (e *staleError) Unwrap() error { return e.error }

// elsewhere refuses a request for another host than the endpoint's, or leads a page load home.
func (e *Endpoint) elsewhere(ex *web.Exchange, row *Row) error {
	site := e.options.Site
	switch {
	case site.AtHome(&ex.Received), !e.home && !ex.Foreign, row.LeadsHome:
		return nil
	case row.Page && ex.PageLoad():
		ex.Decision = web.DecisionAllow
		ex.Redirect(http.StatusFound, site.PublicURL+ex.Target())
		return web.ErrAnswered
	case ex.Foreign:
		return errForeign()
	}
	return &web.Error{
		Status: http.StatusForbidden, Detail: "The account is at " + site.PublicURL + site.Own("account") + " alone.",
		Cause: errors.New("the endpoint is served at the host of public_url alone, so that no application can use it"),
	}
}

// errForeign refuses a request at a host that is not the gateway's (listen.any_host,
// or an address that load balancers ask for): its owner may control the requests of browsers there,
// and could use the cookies and tokens of a user.
func errForeign() error {
	return &web.Error{
		Status: http.StatusMisdirectedRequest,
		Detail: "The gateway's own endpoints are not served at this host. Use the address of the gateway.",
		Cause: errors.New("an own endpoint at a host that is not one of the gateway's: " +
			"that of public_url, those in routes, tls.domains"),
	}
}

// admit refuses a user who may not make the request, or leads the user to the sign-in page.
func (e *Endpoint) admit(ex *web.Exchange, row *Row) error {
	if !row.Sessions {
		return nil
	}
	id, err := e.options.changer(ex)
	if err == nil && row.May != nil {
		err = row.May(id)
	}
	if err != nil {
		return err
	}
	if !e.options.fresh(id, row.Fresh) {
		return e.again(ex, policy.Demand{MaxAge: row.Fresh}, askFresh(id, row.Fresh), fmt.Sprintf(
			"Sign in again to do this. Your sign-in is older than %d minutes.", int(row.Fresh.Minutes())))
	}
	if row.Demand == nil {
		return nil
	}
	if d := row.Demand(id); !d.Met(&id.Proof, e.options.Now()) {
		return e.again(ex, d, d, "Sign in again to do this. It needs: "+d.String()+".")
	}
	return nil
}

// again answers a user whose sign-in has proved too little: a page leads through one that
// asks for more.
func (e *Endpoint) again(ex *web.Exchange, lacks, ask policy.Demand, detail string) error {
	if ByPage(ex) && !ex.ByScript() {
		ex.Decision = web.DecisionChallenge
		ex.Redirect(http.StatusSeeOther, e.options.SignInAgain(e.back, ask, ex.ReadReturn(ex.QueryValue)))
		return web.ErrAnswered
	}
	return &web.Error{Status: http.StatusForbidden, MaxAge: lacks.MaxAge, Detail: detail}
}

func (e *Endpoint) notAllowed() error {
	allowed := slices.Sorted(maps.Keys(e.rows))
	if allowed[0] == http.MethodGet {
		allowed = slices.Insert(allowed, 1, http.MethodHead)
	}
	return &web.Error{
		Status: http.StatusMethodNotAllowed, Allow: strings.Join(allowed, ", "),
		Detail: "This endpoint answers " + strings.Join(allowed, ", ") + ".",
	}
}
