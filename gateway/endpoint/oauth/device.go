package oauth

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"authgate/gateway/endpoint"
	"authgate/gateway/endpoint/bodies"
	"authgate/gateway/identity/auth"
	"authgate/gateway/login/grants"
	"authgate/gateway/pages"
	"authgate/gateway/people/accounts"
	"authgate/gateway/proxy/places"
	"authgate/gateway/proxy/web"
	"authgate/policy"
)

const (
	userCodeField = "user_code"
	// pollInterval is how many seconds a device waits between its questions (RFC 8628,
	// section 3.2).
	pollInterval = 5
)

// deviceAnswer is the answer of the device authorization endpoint (RFC 8628, section 3.2).
type deviceAnswer struct {
	DeviceCode string `json:"device_code"`
	UserCode   string `json:"user_code"`
	URI        string `json:"verification_uri"`
	Complete   string `json:"verification_uri_complete"`
	ExpiresIn  int    `json:"expires_in"`
	Interval   int    `json:"interval"`
}

// devices is the page where users let devices in.
type devices struct {
	*authorization
	known *grants.Devices
}

// beginDevice is POST oauth/device.
func (s *programs) beginDevice(ex *web.Exchange, c *call) (any, error) {
	if !c.client.May(grantDevice) {
		return nil, refuse(codeUnauthorizedClient, "The client may not use the device code grant.")
	}
	if err := s.starts.Begin(ex.Peer.Client); err != nil {
		return nil, err
	}
	terms, err := s.terms(c.client, c.form)
	if err != nil {
		return nil, err
	}
	device, user, err := s.devices.New(&ex.Store, terms)
	if err != nil {
		return nil, err
	}
	ex.Audit("device_started", slog.String("client_id", c.client.ID), slog.String("resource", terms.Resource),
		slog.String("scope", strings.Join(terms.Scopes, " ")))
	page := s.address(devicePage)
	return deviceAnswer{
		DeviceCode: device, UserCode: user, URI: page, Complete: places.WithParameter(page, userCodeField, user),
		ExpiresIn: int(s.section.DeviceLifetime.Seconds()), Interval: pollInterval,
	}, nil
}

// byDeviceCode answers the poll of a device (RFC 8628, section 3.4).
func (s *programs) byDeviceCode(ex *web.Exchange, c *call) (*grants.Issued, error) {
	code := c.form.Get("device_code")
	if code == "" {
		return nil, refuse(codeInvalidRequest, "The parameter device_code is needed.")
	}
	return s.devices.Poll(&ex.Store, code, func(t *grants.Terms) error {
		if t.Client != c.client.ID {
			return refuse(codeInvalidGrant, "The device code is of another client.")
		}
		t.Federation = c.entry()
		return nil
	})
}

// showDevice is GET device: the page where a user enters the code that a device shows. A
// link can fill it in, and does nothing more: whose device it is, the user must see.
func (s *devices) showDevice(ex *web.Exchange) error {
	id, err := endpoint.Guest(ex, s.options.Sessions(""))
	if err != nil {
		return err
	}
	if id == nil {
		ex.Decision = web.DecisionChallenge
		place := ex.SignInPlace(s.site.Own("signin"), places.Return{Path: ex.Target()})
		ex.Redirect(http.StatusFound, ex.TellEnd(place))
		return nil
	}
	s.writeDevice(ex, http.StatusOK, id, pages.Device{Code: ex.QueryValue(userCodeField)})
	return nil
}

// decideDevice is POST device: first the code, then the decision.
func (s *devices) decideDevice(ex *web.Exchange) error {
	const detail = "The form must have the field user_code, and may have the field decision."
	form, err := bodies.ReadForm(ex, detail, userCodeField)
	if err != nil {
		return err
	}
	if len(form[decisionField]) > 1 {
		return web.BadRequest(detail, nil)
	}
	id, code := ex.Identity, form.Get(userCodeField)
	terms, err := s.lookUp(ex, id, code)
	if errors.Is(err, grants.ErrNoDevice) {
		ex.Failed(err, http.StatusBadRequest)
		s.writeDevice(ex, http.StatusBadRequest, id, pages.Device{Code: code, Wrong: true})
		return nil
	}
	if err != nil {
		return err
	}
	return s.answerDevice(ex, id, terms, form)
}

// lookUp finds the terms that a device asks for. A wrong code counts as a failed login, so that
// codes of others cannot be guessed.
func (s *devices) lookUp(ex *web.Exchange, id *policy.Identity, code string) (terms *grants.Terms, err error) {
	account, ok := s.accounts.Lookup(id.Username)
	if !ok || id.Provider != policy.LocalProvider {
		account = &accounts.Account{Username: id.Subject}
	}
	err = s.verifier.CheckCode(ex.Request.Context(), account, ex.Peer.Client, func() error {
		terms, err = s.known.Find(&ex.Store, code)
		if errors.Is(err, grants.ErrNoDevice) {
			return errors.Join(err, auth.ErrRejected)
		}
		return err
	})
	return terms, web.Refused(web.CredentialUserCode, err)
}

// answerDevice asks the user about a device whose code is right, or keeps the decision.
func (s *devices) answerDevice(ex *web.Exchange, id *policy.Identity, terms *grants.Terms, form url.Values) error {
	client, err := s.findClient(ex, terms.Client)
	if err != nil {
		return err
	}
	demand, admitted := s.admit(ex, client, id)
	if !admitted {
		return web.Forbidden()
	}
	code := form.Get(userCodeField)
	if !demand.Met(&id.Proof, s.options.Now()) {
		page := s.site.StepUpPage(id, s.site.Own("signin"))
		back := places.WithParameter(s.site.Own(devicePage), userCodeField, code)
		ex.Decision = web.DecisionChallenge
		ex.Redirect(http.StatusSeeOther, ex.SignInPlace(page, places.Return{Path: back, Demand: demand}))
		return nil
	}
	switch form.Get(decisionField) {
	case "":
		ex.Again = places.WithParameter(s.site.Own(devicePage), userCodeField, code)
		s.ask(ex, client, terms, id, pages.Consent{
			Action: s.site.Own(devicePage), Seal: s.forms.of("device", id.Login, code), Code: code,
		})
		return nil
	case decisionDeny:
		err, id = s.known.Decide(&ex.Store, code, nil), nil
	case decisionAllow:
		if !s.forms.fits(form.Get(sealField), "device", id.Login, code) {
			return &web.Error{Status: http.StatusForbidden,
				Detail: "This page is of another session or code. Begin again.",
				Cause:  errors.New("the seal of the form does not fit the session and the code")}
		}
		err = s.consents.Give(&ex.Store, id.Subject, terms.Client, client.Name, terms.Resource, terms.Scopes)
		if err == nil {
			err = s.known.Decide(&ex.Store, code, id)
		}
	default:
		return web.BadRequest("The field decision must be allow or deny.", nil)
	}
	if err != nil {
		return stale(err)
	}
	if id != nil {
		s.authorized(ex, client, terms)
	} else {
		s.auditRefused(ex, terms.Client, terms.Resource)
	}
	s.writeDevice(ex, http.StatusOK, ex.Identity, pages.Device{
		Client: clientName(client), Allowed: id != nil, Decided: true,
	})
	return nil
}

func (s *devices) writeDevice(ex *web.Exchange, status int, id *policy.Identity, page pages.Device) {
	page.Action, page.User = s.site.Own(devicePage), ex.User(id)
	page.CSRFToken = s.options.CrossSite.Token(ex, id.Login)
	ex.Page(status, func(p *pages.Pages, w io.Writer) error { return p.Device(w, page) })
}
