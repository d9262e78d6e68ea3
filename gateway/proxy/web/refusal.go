package web

import (
	"errors"
	"log/slog"
	"net/http"

	"authgate/gateway/identity/auth"
)

// Credential is a kind of credential that own endpoints take, in the words of the audit log.
type Credential string

// The kinds of credentials whose refusal has no event of its own.
const (
	CredentialCode         Credential = "code"
	CredentialRefreshToken Credential = "refresh_token"
	CredentialDeviceCode   Credential = "device_code"
	CredentialUserCode     Credential = "user_code"
	CredentialTicket       Credential = "ticket"
	CredentialInvitation   Credential = "invitation"
	CredentialTOTP         Credential = "totp"
	CredentialAccessToken  Credential = "access_token"
	CredentialLogoutToken  Credential = "logout_token"
)

// Refusal is the error of a credential that an own endpoint refuses. AuditRefusal records it, and
// all else treats it as Err.
type Refusal struct {
	Err    error
	Kind   Credential
	Past   bool   // it was good once
	Client string // the OAuth client that has proved itself; empty: none
}

// Refused returns err, if there is one, as the refusal of a credential.
func Refused(kind Credential, err error) error {
	if err == nil {
		return nil
	}
	return &Refusal{Err: err, Kind: kind}
}

// Error implements error.
func (r *Refusal) Error() string { return r.Err.Error() }

// Unwrap returns the error.
func (r *Refusal) Unwrap() error { return r.Err }

// AuditRefusal records the refusal of a credential, if err is one or the answer has told of one. A
// failure of the gateway, and a cookie whose login has ended, are none.
func (ex *Exchange) AuditRefusal(err error) {
	if err == nil || errors.Is(err, ErrAnswered) {
		err = ex.err
	}
	refused, ok := errors.AsType[*Refusal](err)
	if !ok {
		return
	}
	status := toHTTP(ex.Store.Context, err).Status
	if status == statusClientGone || status >= http.StatusInternalServerError {
		return
	}
	past, reason := refused.Past, ReasonOf(refused.Err)
	if rejection, ok := errors.AsType[*auth.Rejection](err); ok {
		if rejection.Cookie != auth.NoCookie {
			return
		}
		past = past || rejection.Past
	}
	ex.AuditRefused("credential_refused", past, slog.String("kind", string(refused.Kind)),
		slog.String("reason", reason), slog.String("client_id", refused.Client))
}

// ReasonOf returns why a request is refused, for operators.
func ReasonOf(err error) string {
	if rejection, ok := errors.AsType[*auth.Rejection](err); ok {
		return rejection.Reason
	}
	if answer, ok := errors.AsType[*Error](err); ok && answer.Cause != nil {
		return answer.Cause.Error()
	}
	return err.Error()
}

// AuditRefused is Audit for a credential that is refused. The event begins with cross_site if a page of another
// site made the browser send the request (Fetch Metadata, Origin), and with past if the credential was good once.
// Programs that ban addresses by the log ban none for such an event.
func (ex *Exchange) AuditRefused(event string, past bool, attrs ...slog.Attr) {
	var first []slog.Attr
	if ex.FromElsewhere() {
		first = append(first, slog.Bool("cross_site", true))
	}
	if past {
		first = append(first, slog.Bool("past", true))
	}
	ex.Audit(event, append(first, attrs...)...)
}
