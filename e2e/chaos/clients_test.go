package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// pause is the average time between two requests of a client.
const pause = 10 * time.Millisecond

// client signs in again and again. Only ask may be called by several goroutines.
type client struct {
	*cell
	random *rand.Rand
	http   *http.Client
	past   []*login
}

func (c *cell) newClient(random *rand.Rand) *client {
	transport := &http.Transport{
		TLSClientConfig: c.tls.Clone(), ForceAttemptHTTP2: random.IntN(2) == 0, MaxIdleConnsPerHost: 16,
	}
	c.t.Cleanup(transport.CloseIdleConnections)
	return &client{cell: c, random: random, http: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// login has the credentials of an acknowledged login and of its refreshes.
type login struct {
	number  int
	user    string
	session string // the cookie
	tokens  []string
	refresh string // empty if the last one was used
	endings int    // how often the client asked for its end
}

// credential is a header of a request, and its name in the history.
type credential struct{ name, header, value string }

func (l *login) cookie() credential { return credential{session, "Cookie", l.session} }

// token returns one of the access tokens, most often the last one.
func (l *login) token(random *rand.Rand) credential {
	i := len(l.tokens) - 1
	if random.IntN(4) == 0 {
		i = random.IntN(len(l.tokens))
	}
	return credential{"access " + strconv.Itoa(i), "Authorization", "Bearer " + l.tokens[i]}
}

func (l *login) any(random *rand.Rand) credential {
	if random.IntN(2) == 0 {
		return l.cookie()
	}
	return l.token(random)
}

// live signs in and out until ctx ends.
func (c *client) live(ctx context.Context) {
	for ctx.Err() == nil {
		c.wait(ctx)
		troubles := c.troubles.Load()
		l := c.signIn(c.instance())
		if l == nil {
			continue
		}
		for range 3 + c.random.IntN(20) {
			c.wait(ctx)
			if c.troubles.Load() != troubles {
				break // sign out in the first moment of a fault, with everything in caches
			}
			// After a 503 the client gives up, or does something else.
			if a := c.step(l); a.Event.Status == http.StatusServiceUnavailable && c.random.IntN(2) == 0 {
				break
			}
		}
		if c.random.IntN(8) > 0 {
			c.leave(l)
		}
		c.past = append(c.past, l)
	}
}

func (c *client) wait(ctx context.Context) { c.calm(ctx, c.random, 0, 2*pause) }

func (c *client) instance() *instance { return c.instances[c.random.IntN(len(c.instances))] }

// step sends one request of a signed-in client.
func (c *client) step(l *login) answer {
	switch n := c.random.IntN(20); {
	case n == 0:
		c.signOut(l)
	case n <= 3:
		c.refresh(l)
	case n <= 5:
		return c.ask(l, c.instance(), event{Kind: kindMe}, "GET", "/me", "", l.any(c.random))
	case n <= 9:
		c.haunt()
	default:
		return c.use(l, c.instance(), l.any(c.random))
	}
	return answer{}
}

// witness signs in at one instance, uses the login at another one, signs out at the
// first, and goes on at the other for longer than it may accept the login. It does so
// at least once, until ctx ends.
func (c *client) witness(ctx context.Context, once func()) {
	for {
		i := c.random.IntN(len(c.instances))
		here, there := c.instances[i], c.instances[(i+1)%len(c.instances)]
		if l := c.signIn(here); l != nil {
			shown := l.any(c.random)
			for range 2 { // so that it is in the cache
				c.use(l, there, shown)
			}
			l.endings++
			c.ask(l, here, event{Kind: kindLogout}, "POST", "/logout", "", l.any(c.random))
			for until := c.history.Now() + documented.Staleness; c.history.Now() < until; {
				c.wait(c.t.Context())
				c.use(l, there, shown)
			}
			c.use(l, there, shown)
			c.past = append(c.past, l)
		}
		once()
		if ctx.Err() != nil {
			return
		}
		c.wait(ctx)
	}
}

// haunt uses a login that ended some time ago: an instance that accepted it before
// may have missed its end.
func (c *client) haunt() {
	if len(c.past) == 0 {
		return
	}
	recent := c.past[max(0, len(c.past)-20):]
	old := recent[c.random.IntN(len(recent))]
	c.use(old, c.instance(), old.any(c.random))
}

func (c *client) signIn(g *instance) *login {
	l := &login{number: int(c.logins.Add(1)), user: []string{"alice", "bob"}[c.random.IntN(2)]}
	body := fmt.Sprintf(`{"username":%q,"password":%q}`, l.user, passwords[l.user])
	a := c.ask(l, g, event{Kind: kindLogin}, "POST", "/login", body, credential{})
	if !a.Event.good() {
		return nil
	}
	l.session, _, _ = strings.Cut(a.cookie, ";")
	l.gained(a)
	return l
}

// gained reads the tokens of an answer.
func (l *login) gained(a answer) {
	var body struct {
		Access  string `json:"access_token"`
		Refresh string `json:"refresh_token"`
	}
	_ = json.Unmarshal(a.body, &body) // without tokens the next requests fail
	l.tokens, l.refresh = append(l.tokens, body.Access), body.Refresh
}

func (c *client) use(l *login, g *instance, shown credential) answer {
	return c.ask(l, g, event{Kind: kindUse}, "GET", "/", "", shown)
}

// refresh sends one refresh token several times at once, to any instances.
func (c *client) refresh(l *login) {
	if l.refresh == "" {
		return
	}
	name := "refresh " + strconv.Itoa(len(l.tokens))
	body := fmt.Sprintf(`{"refresh_token":%q}`, l.refresh)
	answers := make([]answer, 1+c.random.IntN(4))
	var presenting sync.WaitGroup
	for i := range answers {
		g := c.instance()
		presenting.Go(func() {
			answers[i] = c.ask(l, g, event{Kind: kindRefresh}, "POST", "/refresh", body, credential{name: name})
		})
	}
	presenting.Wait()
	l.refresh = ""
	for _, a := range answers {
		if a.Event.good() {
			l.gained(a)
		}
	}
}

// leave signs out while others use the login, and then uses it again.
func (c *client) leave(l *login) {
	var meanwhile sync.WaitGroup
	for _, g := range c.instances {
		shown := l.any(c.random)
		meanwhile.Go(func() {
			for range 4 {
				c.use(l, g, shown)
			}
		})
	}
	c.signOut(l)
	for _, g := range c.instances {
		c.use(l, g, l.any(c.random))
	}
	meanwhile.Wait()
	if c.random.IntN(3) == 0 {
		c.refresh(l)
	}
}

// signOut signs out by session, token or link, with up to three attempts.
func (c *client) signOut(l *login) {
	l.endings++
	for range 3 {
		method, shown := "POST", l.any(c.random)
		if c.random.IntN(4) == 0 {
			method, shown = "GET", l.cookie() // a link is for browsers
		}
		a := c.ask(l, c.instance(), event{Kind: kindLogout}, method, "/logout", "", shown)
		if a.Event.Status != 503 && a.Event.Status != 0 {
			return
		}
	}
}

// answer is an answer and its event.
type answer struct {
	Event  event
	body   []byte
	cookie string // the first Set-Cookie
}

// ask sends a request and records it.
func (c *client) ask(l *login, g *instance, e event, method, path, body string, shown credential) answer {
	e.At, e.User, e.Login, e.Credential = g.name, l.user, l.number, shown.name
	e.Request = strconv.FormatInt(c.requests.Add(1), 10)
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	request, _ := http.NewRequestWithContext(ctx, method, "https://localhost:"+g.port+path+"?n="+e.Request,
		strings.NewReader(body))
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	if shown.header != "" {
		request.Header.Set(shown.header, shown.value)
	}
	e.Begin = c.history.Now()
	a, err := c.send(request)
	e.End = c.history.Now()
	if e.Status = a.Event.Status; err != nil {
		e.Status, e.Note = 0, err.Error()
	}
	if e.Status == http.StatusOK && (e.Kind == kindUse || e.Kind == kindMe) {
		e.Answered = told(e.Kind, a.body)
	}
	a.Event = e
	c.history.Add(e)
	return a
}

func (c *client) send(request *http.Request) (answer, error) {
	response, err := c.http.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return answer{event{Status: response.StatusCode}, body, response.Header.Get("Set-Cookie")}, err
}

// told returns the identity in an answer of the upstream or of /me, nil if there is
// none.
func told(kind kind, body []byte) *identity {
	id := &identity{}
	if kind != kindMe {
		if json.Unmarshal(body, id) != nil {
			return nil
		}
		return id
	}
	var me struct{ Username, Mechanism string }
	if json.Unmarshal(body, &me) != nil {
		return nil
	}
	return &identity{User: me.Username, Mechanism: me.Mechanism}
}
