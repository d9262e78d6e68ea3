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

// cookieName differs from the gateway's: cookies do not tell ports apart.
const cookieName = "demo_provider_session"

// session is somebody signed in here, with one browser. It is live while it
// is on the shelf, and so is everything that was issued in it.
type session struct {
	id      string // sid in tokens; it does not tell the cookie
	user    *User
	since   time.Time // of the last time that the password was given: auth_time
	expires time.Time
	clients map[string]*Client // that got tokens in it; Provider.mu guards the map
}

// grant is what one authorization gave one client: a code, and tokens for it.
// It is live while it is on the shelf and its session is.
type grant struct {
	id      string
	session *session
	client  *Client
	scopes  []string
}

// secret is a new value that nobody can guess, of some 250 random bits.
func secret() string { return rand.Text() + rand.Text() }

// sessionID makes of a cookie the public name of its session.
func sessionID(cookie string) string {
	sum := sha256.Sum256([]byte(cookie))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// current is the session of the browser, nil where it is not signed in.
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

// start signs a user in. Whoever was signed in with this browser and is
// somebody else no longer is; the same person goes on in the same session.
func (p *Provider) start(w http.ResponseWriter, r *http.Request, user *User) *session {
	now := p.options.Now()
	before := p.current(r)
	if before != nil && before.user != user {
		p.end(before)
		before = nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if before != nil && p.sessions.delete(before.id) { // it has not ended meanwhile
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

// sessionCookie has no Secure, because browsers differ on what that means for
// plain http on loopback.
func sessionCookie(value string) *http.Cookie {
	c := &http.Cookie{Name: cookieName, Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode}
	if value == "" {
		c.MaxAge = -1
	}
	return c
}

// end ends a session with all that was issued in it, and has the clients that
// took part told. The group is done when they have been.
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
		token, err := p.logoutToken(c, s)
		if err != nil {
			p.options.Logger.Error("a client was not told of a logout", "client", c.ID, "error", err)
			continue
		}
		p.notices.send(told, c, token)
	}
	return told
}

// live reports whether a grant still holds. The caller holds p.mu.
func (p *Provider) live(g *grant) bool {
	_, granted := p.grants.get(g.id)
	_, signedIn := p.sessions.get(g.session.id)
	return granted && signedIn
}
