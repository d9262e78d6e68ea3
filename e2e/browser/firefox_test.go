//go:build interop

package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"authgate/e2e/world"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
)

// firefox is one tab of Firefox, over WebDriver BiDi (https://w3c.github.io/webdriver-bidi/),
// which the browser itself speaks.
type firefox struct {
	t      *testing.T
	ctx    context.Context
	remote *marionette // began the session
	conn   *websocket.Conn
	last   int
	tab    string // its browsing context
}

// firefoxSettings make Firefox listen, and use devices with passkeys that a test adds.
const firefoxSettings = `user_pref("marionette.port", %s);
user_pref("security.webauth.webauthn_enable_softtoken", true);
user_pref("security.webauth.webauthn_enable_usbtoken", false);
`

// object is an object of JSON.
type object = map[string]any

// startFirefox starts the browser with a new profile. It ends with the test. It accepts
// the gateway's certificate, whose authority it does not know.
func startFirefox(t *testing.T) *firefox {
	t.Helper()
	name := "firefox-esr"
	if _, err := exec.LookPath(name); err != nil {
		name = "firefox"
	}
	home := world.Must(os.MkdirTemp("", "firefox-"))(t)
	t.Cleanup(func() {
		world.Until(t, "Firefox to leave its folder", func() bool { return os.RemoveAll(home) == nil })
	})
	out, port := &world.Output{}, world.FreePort(t)
	world.NoError(t, os.WriteFile(filepath.Join(home, "user.js"), fmt.Appendf(nil, firefoxSettings, port), 0o600))
	cmd := exec.Command(name, "--headless", "--no-remote", "--profile", home, "--marionette", "--remote-debugging-port",
		world.FreePort(t), "about:blank")
	cmd.Env = append(os.Environ(), "HOME="+home, "MOZ_DISABLE_CONTENT_SANDBOX=1")
	cmd.Stdout, cmd.Stderr = out, out
	ended := world.Spawn(t, cmd)
	f := &firefox{t: t, ctx: t.Context()}
	world.Eventually(t, world.Patience, "Firefox", func() error {
		select {
		case <-ended:
			t.Fatalf("Firefox ends:\n%s", out)
		default:
		}
		var err error
		f.remote, err = dialMarionette("127.0.0.1:" + port)
		return err
	})
	t.Cleanup(func() { f.remote.conn.Close() })
	var session struct{ Capabilities struct{ WebSocketURL string } }
	f.remote.call(t, "WebDriver:NewSession", object{"acceptInsecureCerts": true, "webSocketUrl": true}, &session)
	var err error
	f.conn, _, err = websocket.Dial(f.ctx, session.Capabilities.WebSocketURL, nil)
	world.NoError(t, err)
	f.conn.SetReadLimit(1 << 24)
	t.Cleanup(func() { f.conn.CloseNow() })
	var tree struct{ Contexts []struct{ Context string } }
	f.call("browsingContext.getTree", object{}, &tree)
	f.tab = tree.Contexts[0].Context
	return f
}

// call sends a command and decodes its result, unless that is nil.
func (f *firefox) call(method string, params object, result any) {
	f.t.Helper()
	f.last++
	world.NoError(f.t, wsjson.Write(f.ctx, f.conn, object{"id": f.last, "method": method, "params": params}))
	for {
		var said struct {
			ID             int
			Type           string
			Error, Message string
			Result         json.RawMessage
		}
		world.NoError(f.t, wsjson.Read(f.ctx, f.conn, &said))
		if said.ID != f.last {
			continue // an event
		}
		if said.Type != "success" {
			f.t.Fatalf("%s %v: %s: %s", method, params, said.Error, said.Message)
		}
		if result != nil {
			world.NoError(f.t, json.Unmarshal(said.Result, result))
		}
		return
	}
}

// open loads a page.
func (f *firefox) open(url string) {
	f.t.Helper()
	f.call("browsingContext.navigate", object{"context": f.tab, "url": url, "wait": "complete"}, nil)
}

// value returns the value of an expression, which is a text.
func (f *firefox) value(expression string) string {
	f.t.Helper()
	var said struct {
		Result           struct{ Value string }
		ExceptionDetails struct{ Text string }
	}
	f.call("script.evaluate", object{"expression": expression, "target": object{"context": f.tab}, "awaitPromise": true},
		&said)
	if said.ExceptionDetails.Text != "" {
		f.t.Fatalf("%s: %s", expression, said.ExceptionDetails.Text)
	}
	return said.Result.Value
}

// types writes a text with the keyboard into the field that a selector finds.
func (f *firefox) types(selector, text string) {
	f.t.Helper()
	f.value(fmt.Sprintf("document.querySelector(%q).focus(), ''", selector))
	var keys []object
	for _, r := range text {
		keys = append(keys, object{"type": "keyDown", "value": string(r)}, object{"type": "keyUp", "value": string(r)})
	}
	f.call("input.performActions", object{"context": f.tab,
		"actions": []object{{"type": "key", "id": "keyboard", "actions": keys}}}, nil)
}

// click clicks on what a selector finds.
func (f *firefox) click(selector string) {
	f.t.Helper()
	f.value(fmt.Sprintf("document.querySelector(%q).click(), ''", selector))
}

// enter presses the key Enter in its BiDi spelling.
const enter = "\uE007"

// is waits until the browser shows a page whose address begins with url and that has a
// text.
func (f *firefox) is(url, text string) {
	f.t.Helper()
	world.Eventually(f.t, world.Patience, "the page "+url, func() error {
		at := f.value("document.readyState !== 'loading' && document.body ? location.href + '\\n' + " +
			"document.body.innerText : ''")
		if !strings.HasPrefix(at, url) || !strings.Contains(at, text) {
			return fmt.Errorf("Firefox shows %s", at)
		}
		return nil
	})
}

// TestFirefox: people sign in and out in Firefox, with a local account and at a provider.
func TestFirefox(t *testing.T) {
	f := startFirefox(t)
	t.Run("local accounts", func(t *testing.T) { f.with(t).localAccounts() })
	t.Run("delegated", func(t *testing.T) { f.with(t).delegated() })
	t.Run("other sites", func(t *testing.T) { f.with(t).otherSites() })
	t.Run("passkeys", func(t *testing.T) { f.with(t).passkeys() })
}

// with is the same tab in a subtest.
func (f *firefox) with(t *testing.T) *firefox {
	one := *f
	one.t = t
	t.Cleanup(func() { f.last = one.last })
	return &one
}

// localAccounts: a page leads to the sign-in page and back. No script reads the cookie. After
// signing out the page is gone.
func (f *firefox) localAccounts() {
	up := world.Record(f.t)
	g := world.Start(f.t, browserRoutes+world.App(up.URL))
	const page = "/admin-resource?x=1&y=a%20b"
	f.open(g.Base + page)
	f.is(g.Base+"/signin", "User name")
	f.types("#username", "alice")
	f.types("#password", "not this"+enter)
	f.is(g.Base+"/login", "Invalid username or password.")
	up.None(f.t)
	f.types("#password", "wonderland"+enter)
	f.is(g.Base+page, "ok")
	wantAsked(f.t, up, "GET", page, "alice")
	if got := f.value("document.cookie"); got != "" {
		f.t.Errorf("a script reads the cookies %q", got)
	}
	if got := f.value("performance.getEntriesByType('navigation')[0].nextHopProtocol"); got != "h2" {
		f.t.Errorf("Firefox uses the protocol %q", got)
	}
	f.open(g.Base + "/me")
	f.is(g.Base+"/me", "Alice Example")
	f.click("button")
	f.is(g.Base+signedOutPage, "")
	f.open(g.Base + page)
	f.is(g.Base+"/signin", "User name")
	up.None(f.t)
}

// delegated: a page leads to oidc-provider, through its forms, and back.
func (f *firefox) delegated() {
	d := world.StartCertified(f.t).Start(f.t, world.ProviderOptions{}, world.ProviderClient{More: ", logout: redirect"},
		"")
	const page = "/secure-resource?x=1"
	f.open(d.Base + page)
	f.is(d.Provider.Issuer, "")
	f.types("[name=login]", "alice")
	f.types("[name=password]", "as good as any"+enter)
	const consent = `document.readyState !== 'loading' && document.querySelector('[value=consent]') && !window.clicked &&
		(window.clicked = true, document.querySelector('button').click()), ''`
	world.Eventually(f.t, world.Patience, "the way back", func() error {
		if at := f.value("location.href"); !strings.HasPrefix(at, d.Base) {
			f.value(consent)
			return fmt.Errorf("Firefox shows %s", at)
		}
		return nil
	})
	f.is(d.Base+page, "ok")
	up := d.Up.All()
	if got := up[0].Value(f.t, "X-Auth-Subject"); got != "certified:alice" {
		f.t.Errorf("the upstream gets the subject %q", got)
	}
	f.open(d.Base + "/me")
	f.click("button")
	f.is(d.Provider.Issuer+"/session/end", "")
}

// otherSites: a form of another site changes nothing, and its link finds the session.
func (f *firefox) otherSites() {
	up := world.Record(f.t)
	g := world.Start(f.t, world.People+world.App(up.URL)+"routes:\n  - {match: /page, upstream: app, auth: [session]}\n")
	f.open(g.Base + "/signin?return_to=/page")
	f.types("#username", "alice")
	f.types("#password", "wonderland"+enter)
	f.is(g.Base+"/page", "ok")
	up.All()
	other := "data:text/html,<form method=post action=" + g.Base + "/page><button>x</button></form><a " +
		"href=" + g.Base + "/page>x</a>"
	f.open(other)
	f.click("button")
	f.is(g.Base+"/page", "")
	for _, m := range up.All() {
		if strings.HasPrefix(m.Line, "POST") {
			f.t.Errorf("the form of another site reaches the upstream: %s", m.Line)
		}
	}
	f.open(other)
	f.click("a")
	f.is(g.Base+"/page", "ok")
	wantAsked(f.t, up, "GET", "/page", "alice")
}
