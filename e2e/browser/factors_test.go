package browser

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"authgate/e2e/world"
	"authgate/internal/test/authenticator"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// factorRoutes have a page that needs two factors.
const factorRoutes = `
accounts: {file: accounts.yaml}
policies:
  vault: {factors: 2}
routes:
  - {match: /secure-resource, upstream: app, auth: [session]}
  - {match: /vault, upstream: app, auth: [session], policy: vault}
`

// What people use on the pages of second factors.
const (
	passkeyButton = "form[data-passkey] button"
	codeForm      = "form[action^='/signin/code'] button"
	totpForm      = "form[action^='/account/totp']"
)

// factorsGateway starts a gateway whose users may add second factors.
func (c *chromium) factorsGateway(t *testing.T) (*world.Instance, *world.Recorder) {
	t.Helper()
	g, up := c.prepared(t), world.Record(t)
	g.Write("accounts.yaml", world.Person("alice", world.WonderlandHash, ", name: Alice Example, roles: [user, admin]")+
		world.Person("bob", world.BuilderHash, ", roles: [user]"))
	g.Configure(world.App(up.URL) + factorRoutes)
	g.Run()
	return g, up
}

// wantsIn opens a page of the application that leads to the sign-in page.
func (b *tab) wantsIn(g *world.Instance, path string) {
	b.t.Helper()
	b.open(g.Base + path)
	b.shows("/signin", http.StatusOK, "User name")
}

// signsOut ends the session of the tab.
func (b *tab) signsOut(g *world.Instance) {
	b.t.Helper()
	b.open(g.Base + "/me")
	b.click("button")
	b.is(g.Base + signedOutPage)
}

// addsPasskey adds a passkey on the account page that the tab shows.
func (b *tab) addsPasskey(name string) {
	b.t.Helper()
	b.write("#passkey-name", name)
	b.click(passkeyButton)
}

// usable checks a page as people meet it: it keeps its policy, fits a small screen, has a
// dark form, and breaks no rule of axe-core.
func (b *tab) usable(what string) {
	b.t.Helper()
	if got := b.complained(); len(got) > 0 {
		b.t.Errorf("%s: the browser complains: %q", what, got)
	}
	b.fits()
	b.isDark()
	b.obeysAxe(what)
}

// recoveryCodes returns the recovery codes that the page shows, each in one line.
func (b *tab) recoveryCodes() []string {
	b.t.Helper()
	codes := strings.Fields(b.value("[...document.querySelectorAll('#codes code')].map(c => c.innerText).join(' ')"))
	if len(codes) != 10 {
		b.t.Fatalf("the page shows the recovery codes %q, want ten: %s", codes, b.describe())
	}
	inTab(b, chromedp.EmulateViewport(320, 256))
	if lines := b.value("Math.max(...[...document.querySelectorAll('#codes code')].map(c => " +
		"Math.round(c.getBoundingClientRect().height / parseFloat(getComputedStyle(c).lineHeight))))"); lines != "1" {
		b.t.Errorf("a recovery code takes %s lines on a small screen", lines)
	}
	inTab(b, chromedp.EmulateReset())
	return codes
}

// codeOf returns the code that an app shows which is some steps of 30 seconds ahead.
func codeOf(t testing.TB, secret string, ahead time.Duration) string {
	t.Helper()
	return world.Must(authenticator.Code(secret, time.Now().Add(ahead*30*time.Second)))(t)
}

// noAutofill makes the tab one of a browser that does not fill in passkeys.
func (b *tab) noAutofill() {
	b.t.Helper()
	command(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		Source: "PublicKeyCredential.isConditionalMediationAvailable = async () => false",
	})
}

// passkeysInBrowser: a person adds the passkey of a phone, and signs in with it alone: by what
// the browser fills in, and by the button. With the phone at hand, another one that is a copy
// of it, or whose counter falls, opens nothing.
func passkeysInBrowser(t *testing.T, c *chromium) {
	g, up := c.factorsGateway(t)
	b := c.tab(t)
	mine := b.device(phone)
	b.wantsIn(g, "/secure-resource")
	b.usable("the sign-in page")
	b.signIn("alice")
	wantAsked(t, up, "GET", "/secure-resource", "alice")
	b.open(g.Base + "/account?part=factors")
	b.usable("the account page")
	b.addsPasskey("Phone")
	b.shows("/account/passkeys", http.StatusCreated, "Keep these codes", "Phone", "You have 10 unused recovery codes.")
	b.usable("the page with recovery codes")
	b.recoveryCodes()
	if !mine.passkey().IsResidentCredential {
		t.Error("the phone does not keep the passkey, so that it cannot be offered without a user name")
	}

	b.signsOut(g)
	b.open(g.Base + "/vault?x=1") // where the browser fills in the only passkey that there is
	b.arrives(g.Base + "/vault?x=1")
	wantAsked(t, up, "GET", "/vault?x=1", "alice")

	b.signsOut(g)
	b.noAutofill()
	before := mine.passkey()
	byButton := func() {
		t.Helper()
		b.wantsIn(g, "/vault")
		b.click(passkeyButton)
	}
	byButton()
	b.is(g.Base + "/vault")
	wantAsked(t, up, "GET", "/vault", "alice")

	b.signsOut(g)
	newest := mine.passkey()
	mine.holds(before) // a copy from before the last sign-in
	byButton()
	b.shows("/signin/passkey", http.StatusUnauthorized, "The passkey was not accepted.")
	b.usable("the page of a refused passkey")
	mine.holds(newest)
	byButton()
	b.is(g.Base + "/vault")
	wantAsked(t, up, "GET", "/vault", "alice")
	up.None(t)
}

// passwordManager makes the tab one of a browser with a password manager. That answers with objects
// of its own: they have what passkeys need, and what they inherit from the objects of the browser
// throws, because they are none of those. Some answer with nothing of use.
func (b *tab) passwordManager() {
	b.t.Helper()
	command(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: `
for (const name of ["create", "get"]) {
  const ask = navigator.credentials[name].bind(navigator.credentials);
  navigator.credentials[name] = async (options) => {
    const real = await ask(options);
    const copied = (from, members) => Object.create(Object.getPrototypeOf(from),
      Object.fromEntries(members.filter((m) => from[m]).map((m) => [m, { value: from[m], enumerable: true }])));
    const response = copied(real.response,
      ["clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle"]);
    const own = copied(real, ["id", "rawId", "type"]);
    Object.defineProperty(own, "response", { value: response });
    if (window.localStorage.getItem("useless")) {
      return {};
    }
    return own;
  };
}`})
}

// passwordManagerInBrowser: a password manager keeps a passkey, and signs in with it: by what it
// fills in, and by the button. An answer of no use is told on the page.
func passwordManagerInBrowser(t *testing.T, c *chromium) {
	g, up := c.factorsGateway(t)
	b := c.tab(t)
	b.passwordManager()
	b.device(phone)
	b.wantsIn(g, "/secure-resource")
	b.signIn("alice")
	up.All()
	b.open(g.Base + "/account?part=factors")
	b.addsPasskey("Manager")
	b.shows("/account/passkeys", http.StatusCreated, "Keep these codes", "Manager")

	b.signsOut(g)
	b.open(g.Base + "/vault?x=1") // where the manager fills in the only passkey that there is
	b.arrives(g.Base + "/vault?x=1")
	wantAsked(t, up, "GET", "/vault?x=1", "alice")

	b.signsOut(g)
	b.value("window.localStorage.setItem('useless', '1')")
	b.open(g.Base + "/vault")
	b.says("The passkey was not used.") // by what the manager fills in
	b.noAutofill()
	b.wantsIn(g, "/vault")
	inTab(b, chromedp.Click(chromedp.CSS(passkeyButton)))
	b.says("The passkey was not used.")
	b.value("window.localStorage.removeItem('useless')")
	b.click(passkeyButton)
	b.is(g.Base + "/vault")
	wantAsked(t, up, "GET", "/vault", "alice")
	up.None(t)
}

// securityKeyInBrowser: a key that verifies no user is the second factor after the password, and
// nothing without it. Several devices of one person do not get in the way of each other.
func securityKeyInBrowser(t *testing.T, c *chromium) {
	g, up := c.factorsGateway(t)
	b := c.tab(t)
	b.noAutofill()
	key := b.device(securityKey)
	b.wantsIn(g, "/secure-resource")
	b.signIn("alice")
	up.All()
	b.open(g.Base + "/account?part=factors")
	b.addsPasskey("Key on the ring")
	b.shows("/account/passkeys", http.StatusCreated, "Key on the ring")
	b.open(g.Base + "/account?part=factors")
	b.write("#passkey-name", "The same key")
	inTab(b, chromedp.Click(chromedp.CSS(passkeyButton)))
	b.says("The device may have it already")
	b.usable("the account page, with a device that has a passkey already")
	ring := key.passkey()
	key.leaves()
	other := b.device(phone)
	b.addsPasskey("Phone")
	b.shows("/account", http.StatusOK, "The passkey is added.", "Key on the ring", "Phone")
	other.leaves()

	b.signsOut(g)
	key = b.device(securityKey) // somebody else's
	b.wantsIn(g, "/vault")
	b.signIn("alice")
	b.shows("/login", http.StatusOK, "Second step", "You are signing in as alice.", "Continue with a passkey")
	b.usable("the page of the second step")
	inTab(b, chromedp.Click(chromedp.CSS(passkeyButton)))
	b.says("The passkey was not used.")
	key.holds(ring)
	b.click(passkeyButton)
	b.is(g.Base + "/vault")
	wantAsked(t, up, "GET", "/vault", "alice")

	b.signsOut(g)
	b.wantsIn(g, "/vault")
	inTab(b, chromedp.Click(chromedp.CSS(passkeyButton)))
	b.says("The passkey was not used.")
	b.usable("the sign-in page, with a key that needs the password")
	up.None(t)
}

// codesInBrowser: a page that needs two factors leads a person who has the password alone to
// an app with codes, and back. Later the password is not enough, and with a lost phone a
// recovery code is, once.
func codesInBrowser(t *testing.T, c *chromium) {
	g, up := c.factorsGateway(t)
	b := c.tab(t)
	b.wantsIn(g, "/vault?x=1")
	b.signIn("bob")
	b.shows("/signin", http.StatusOK, "which your account does not have yet", "you can add one")
	b.usable("the sign-in page for a user without a second factor")
	b.signIn("bob")
	b.shows("/account", http.StatusOK, "To open localhost you need a second factor.")
	b.usable("the account page that leads to a second factor")
	up.None(t)
	b.click(totpForm + " button")
	b.shows("/account/totp", http.StatusCreated, "scan this")
	b.usable("the page with a QR code")
	secret := b.value("document.querySelector('#setup code').innerText")
	b.confirms("000000")
	b.shows("/account/totp/confirm", http.StatusForbidden, "The code is wrong.")
	b.usable("the page after a wrong first code")
	b.confirms(codeOf(t, secret, 0))
	b.shows("/account/totp/confirm", http.StatusOK, "Keep these codes", "Continue to where you wanted to go")
	b.usable("the page with recovery codes and the way back")
	codes := b.recoveryCodes()
	b.click("a.button.primary")
	b.is(g.Base + "/vault?x=1")
	wantAsked(t, up, "GET", "/vault?x=1", "bob")

	b.signsOut(g)
	b.wantsIn(g, "/vault")
	b.signIn("bob")
	b.shows("/login", http.StatusOK, "Second step", "You are signing in as bob.")
	b.usable("the page of the second step")
	b.write("#code", "000 000")
	b.click(codeForm)
	b.shows("/signin/code", http.StatusUnauthorized, "This code is wrong, too old or used.")
	b.usable("the page of the second step after a wrong code")
	up.None(t)
	b.write("#code", codeOf(t, secret, 1)) // the current one is used
	b.click(codeForm)
	b.is(g.Base + "/vault")
	wantAsked(t, up, "GET", "/vault", "bob")

	for _, want := range []int{http.StatusOK, http.StatusUnauthorized} {
		b.signsOut(g)
		b.wantsIn(g, "/vault")
		b.signIn("bob")
		inTab(b, chromedp.Click(chromedp.CSS("summary")))
		b.write("#recovery", codes[0])
		b.click("details button")
		if b.status != want {
			t.Fatalf("want %d: %s", want, b.describe())
		}
		if want == http.StatusOK {
			wantAsked(t, up, "GET", "/vault", "bob")
		}
	}
	b.usable("the page of the second step after a used recovery code")
	up.None(t)
}

// confirms sends the first code of a new app.
func (b *tab) confirms(code string) {
	b.t.Helper()
	b.write("#code", code)
	b.click("#setup button")
}

// oldSignInInBrowser: a page that needs a fresh sign-in asks for it, and opens then.
func oldSignInInBrowser(t *testing.T, c *chromium) {
	g, up := c.factorsGateway(t)
	b := c.tab(t)
	b.wantsIn(g, "/secure-resource")
	b.signIn("alice")
	up.All()
	fresh := func(age string) {
		config := world.App(up.URL) + strings.Replace(factorRoutes, "{factors: 2}", "{max_age: "+age+"}", 1)
		applied := len(g.Log.Records(t, "reloaded"))
		g.Configure(config)
		world.Until(t, "the policy", func() bool { return len(g.Log.Records(t, "reloaded")) > applied })
	}
	fresh("1ms")
	b.open(g.Base + "/vault?x=1")
	b.shows("/signin", http.StatusOK, "Sign in again to go on.", "User name")
	b.usable("the page that asks for a fresh sign-in")
	up.None(t)
	fresh("1h") // else no sign-in is fresh enough
	b.signIn("alice")
	b.is(g.Base + "/vault?x=1")
	wantAsked(t, up, "GET", "/vault?x=1", "alice")
}
