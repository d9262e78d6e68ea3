package gateway

import "net/http/httptest"

// post sends a form of the account page, as a browser does.
func (r *rig) post(status int, target, form, cookie string) *httptest.ResponseRecorder {
	r.t.Helper()
	return r.want(status, "POST", target, form, formType, browser, "Sec-Fetch-Site: same-origin",
		"Sec-Fetch-Mode: navigate", cookie)
}
