package provider

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"
)

// cookieName differs from the gateway's, because ports do not separate cookies.
const cookieName = "demo_provider_session"

// session is a user who is signed in with one browser. The session, and everything
// issued in it, is live while it is in Provider.sessions.
type session struct {
	id      string // sid in tokens; it does not reveal the cookie
	user    *User
	since   time.Time // when the user last entered the password: auth_time
	expires time.Time
	clients map[string]*Client // with tokens from it; Provider.mu guards the map
}

// grant is one authorization for one client: a code, and the tokens for it. It is
// live while it is in Provider.grants and its session is live.
type grant struct {
	id      string
	session *session
	client  *Client
	scopes  []string
}

// secret returns a new value of about 250 random bits.
func secret() string { return rand.Text() + rand.Text() }

// sessionID returns the public ID of the session of a cookie.
func sessionID(cookie string) string {
	sum := sha256.Sum256([]byte(cookie))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// current returns the session of the browser, or nil.
func (p *Provider) current(r *http.Request) *session {
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s, _ := p.sessions.get(sessionID(cookie.Value))
	return s
}

// start signs a user in. It ends the session of another user in this browser. For
// the same user it continues the session.
func (p *Provider) start(w http.ResponseWriter, r *http.Request, user *User) *session {
	now := p.options.Now()
	before := p.current(r)
	if before != nil && before.user != user {
		p.end(before)
		before = nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if before != nil && p.sessions.delete(before.id) { // it has not ended in the meantime
		again := *before
		again.since = now
		p.sessions.put(again.id, &again, again.expires)
		return &again
	}
	cookie := secret()
	s := &session{
		id: sessionID(cookie), user: user, since: now,
		expires: now.Add(p.options.SessionLifetime), clients: map[string]*Client{},
	}
	p.sessions.put(s.id, s, s.expires)
	http.SetCookie(w, sessionCookie(cookie))
	return s
}

// sessionCookie does not set Secure, because browsers treat it differently for
// http on loopback.
func sessionCookie(value string) *http.Cookie {
	c := &http.Cookie{Name: cookieName, Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode}
	if value == "" {
		c.MaxAge = -1
	}
	return c
}

// end ends a session and everything issued in it, and sends logout tokens to its
// clients. The returned group waits for the deliveries.
func (p *Provider) end(s *session) *sync.WaitGroup {
	p.mu.Lock()
	var clients []*Client
	if p.sessions.delete(s.id) {
		clients = slices.Collect(maps.Values(s.clients))
	}
	p.mu.Unlock()
	told := &sync.WaitGroup{}
	for _, c := range clients {
		if c.BackchannelLogoutURI == "" {
			continue
		}
		token, err := p.signer.logoutToken(c, s)
		if err != nil {
			p.options.Logger.Error("logout token not delivered", "client", c.ID, "error", err)
			continue
		}
		p.notices.send(told, c, token)
	}
	return told
}

// live reports whether a grant is live. The caller holds p.mu.
func (p *Provider) live(g *grant) bool {
	_, granted := p.grants.get(g.id)
	_, signedIn := p.sessions.get(g.session.id)
	return granted && signedIn
}
