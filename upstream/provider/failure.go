package provider

import (
	"errors"
	"net/http"
)

// failure is an OAuth 2.0 error: a code of RFC 6749, sections 4.1.2.1 and 5.2,
// and a description for the developer of the client.
type failure struct {
	Code        string `json:"error"`
	Description string `json:"error_description"`
}

func (f *failure) Error() string { return f.Code + ": " + f.Description }

// writeFailure answers a client's request with an error. An error that is not a
// failure is an internal error.
func writeFailure(w http.ResponseWriter, err error) {
	var f *failure
	switch {
	case !errors.As(err, &f):
		writeJSON(w, http.StatusInternalServerError, &failure{"server_error", "the provider failed"})
	case f.Code == "invalid_client":
		w.Header().Set("WWW-Authenticate", `Basic realm="provider"`)
		writeJSON(w, http.StatusUnauthorized, f)
	default:
		writeJSON(w, http.StatusBadRequest, f)
	}
}

// refuse answers a request with a missing or invalid bearer token (RFC 6750,
// section 3).
func refuse(w http.ResponseWriter, presented bool) {
	if !presented {
		w.Header().Set("WWW-Authenticate", `Bearer realm="provider"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	f := &failure{"invalid_token", "the access token is unknown, expired or revoked"}
	w.Header().Set("WWW-Authenticate", `Bearer realm="provider", error="`+f.Code+`", error_description="`+f.Description+`"`)
	writeJSON(w, http.StatusUnauthorized, f)
}
