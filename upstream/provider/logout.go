package provider

import (
	"net/http"
	"net/url"
	"slices"
)

// logout is the end-session endpoint. A client that posts a refresh token ends
// its session directly, as with Keycloak. Other requests come from a browser
// (OpenID Connect RP-Initiated Logout 1.0).
func (p *Provider) logout(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		p.pages.failure(w, http.StatusBadRequest, "The request cannot be read: "+err.Error())
		return
	}
	if r.PostForm.Has("refresh_token") {
		p.logoutByToken(w, r)
		return
	}
	p.logoutByBrowser(w, r)
}

// logoutByToken does not wait until the clients have their logout tokens, because
// the calling client can be one of them.
func (p *Provider) logoutByToken(w http.ResponseWriter, r *http.Request) {
	client, form, err := p.fromClient(r)
	if err != nil {
		writeFailure(w, err)
		return
	}
	p.mu.Lock()
	t, ok := p.refresh.get(form.Get("refresh_token"))
	ok = ok && t.grant.client == client && p.live(t.grant)
	p.mu.Unlock()
	if !ok {
		writeFailure(w, &failure{"invalid_grant", "the refresh token is unknown, expired, revoked or for another client"})
		return
	}
	p.end(t.grant.session)
	w.WriteHeader(http.StatusNoContent)
}

// logoutByBrowser ends the session that the hint names, else the browser's
// session. Then it redirects the browser.
func (p *Provider) logoutByBrowser(w http.ResponseWriter, r *http.Request) {
	next, session, mistake := p.logoutRequest(r)
	switch {
	case mistake != "":
		p.pages.failure(w, http.StatusBadRequest, mistake)
		return
	case session != nil && r.Form.Get("id_token_hint") == "" && sentByOthers(r):
		p.pages.confirmLogout(w, next)
		return
	case session != nil:
		p.end(session).Wait()
	}
	if p.current(r) == nil {
		http.SetCookie(w, sessionCookie(""))
	}
	if next == "" {
		p.pages.signedOut(w)
		return
	}
	more := url.Values{}
	if state := r.Form.Get("state"); state != "" {
		more.Set("state", state)
	}
	http.Redirect(w, r, withQuery(next, more), http.StatusSeeOther)
}

// logoutRequest returns where to go after the logout and the session to end, or
// a mistake in the request.
func (p *Provider) logoutRequest(r *http.Request) (next string, s *session, mistake string) {
	id := r.Form.Get("client_id")
	s = p.current(r)
	if raw := r.Form.Get("id_token_hint"); raw != "" {
		h, err := p.signer.readHint(raw)
		if err != nil || id != "" && id != h.Client {
			return "", nil, "The id_token_hint is not an ID token that this provider has issued to the client."
		}
		id = h.Client
		p.mu.Lock()
		s, _ = p.sessions.get(h.Session)
		p.mu.Unlock()
	}
	next = r.Form.Get("post_logout_redirect_uri")
	if next == "" {
		return "", s, ""
	}
	client := p.clients[id]
	if client == nil || !slices.Contains(client.PostLogoutRedirectURIs, next) {
		return "", nil, "The client has not registered the post_logout_redirect_uri, or client_id and id_token_hint are " +
			"missing."
	}
	return next, s, ""
}

// sentByOthers reports whether another site sent the browser (Fetch Metadata),
// perhaps without the user's intent.
func sentByOthers(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return false
	}
	return true
}

// noHead answers HEAD, which must not sign users out.
func noHead(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Allow", "GET, POST")
	w.WriteHeader(http.StatusMethodNotAllowed)
}
