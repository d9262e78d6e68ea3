package browser

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"authgate/e2e/world"

	"github.com/chromedp/chromedp"
)

// accountRoutes have the accounts in a file, so that people can change their password.
const accountRoutes = `
accounts: {file: accounts.yaml}
routes:
  - {match: '/{$}', upstream: app, auth: [none]}
  - {match: /secure-resource, upstream: app, auth: [session]}
  - {match: /bearer-resource, upstream: app, auth: [bearer]}
`

// accountInBrowser: a person ends the login of another device, makes and revokes a
// token for a program, and changes the password, by forms without scripts.
func accountInBrowser(t *testing.T, c *chromium) {
	g, up := c.prepared(t), world.Record(t)
	g.Write("accounts.yaml", fmt.Sprintf("# staff\n- username: alice # admin\n  name: Alice Example\n  roles: "+
		"[user, admin]\n  password_hash: %q\n", world.WonderlandHash))
	g.Configure(world.App(up.URL) + accountRoutes)
	g.Run()
	laptop, phone := c.tab(t), c.tab(t)
	for _, b := range []*tab{phone, laptop} {
		b.open(g.Base + "/secure-resource")
		b.signIn("alice")
		b.is(g.Base + "/secure-resource")
	}
	laptop.open(g.Base + "/account")
	laptop.shows("/account", http.StatusOK, "Alice Example", "Where you are signed in", "This device", "on Linux",
		"127.0.0.1")
	laptop.asksNothing(g.Base)
	laptop.fits()
	laptop.isDark()
	endsAnotherDevice(t, laptop, phone, g, up)
	tokenForAProgram(t, laptop, g, up)
	newPassword(t, laptop, phone, g, up)
	laptop.asksNothing(g.Base)
}

// endsAnotherDevice: the device is thrown out at its next page.
func endsAnotherDevice(t *testing.T, laptop, phone *tab, g *world.Instance, up *world.Recorder) {
	laptop.click("form[action='/account/sessions/end'] button")
	laptop.shows("/account", http.StatusOK, "The login has ended.")
	text := laptop.text()
	if strings.Contains(text, "Sign out everywhere else") || strings.Count(text, "This device") != 1 {
		t.Errorf("the other login is still there: %s", text)
	}
	up.All()
	phone.load(chromedp.Reload())
	phone.shows("/signin", http.StatusOK, "Sign in to")
	if text := phone.text(); strings.Contains(text, "did not keep the session") || strings.Contains(text, "has ended") {
		t.Errorf("after another device has ended the login, the page says\n%s", text)
	}
	up.None(t)
	laptop.open(g.Base + "/secure-resource")
	wantAsked(t, up, "GET", "/secure-resource", "alice")
	laptop.open(g.Base + "/account")
	laptop.part("programs", "Programs", "API tokens")
}

// part follows the link from one part of the account to another.
func (b *tab) part(name, title, words string) {
	b.t.Helper()
	b.click("nav a[href$='part=" + name + "']")
	b.shows("/account", http.StatusOK, title, words)
	if at := b.value("document.querySelector('nav [aria-current]').innerText"); at != title {
		b.t.Errorf("the part %q is marked as the current one, want %q", at, title)
	}
}

// tokenForAProgram: the page shows the token once.
func tokenForAProgram(t *testing.T, b *tab, g *world.Instance, up *world.Recorder) {
	b.write("#name", "backup script")
	inTab(b, chromedp.Evaluate[chromedp.Void]("document.querySelector('input[value=user]').click()"))
	b.click("form[action='/account/tokens'] button")
	b.shows("/account/tokens", http.StatusCreated, "Copy the token backup script now.")
	b.fits()
	if at := inTab(b, chromedp.Evaluate[string]("document.activeElement.innerText")); !strings.Contains(at, "agt_") {
		t.Errorf("the focus is on %q, want the token", at)
	}
	if strings.Contains(b.text(), "UTC") {
		t.Errorf("times are not those of the browser: %s", b.text())
	}
	token := regexp.MustCompile(`agt_[A-Z2-7]+`).FindString(b.text())
	up.All()
	ask := func(want int) {
		t.Helper()
		if got := g.Status(g.Stranger(), "GET", "/bearer-resource", "Authorization", "Bearer "+token); got != want {
			t.Errorf("the token %q: %d, want %d", token, got, want)
		}
	}
	ask(http.StatusOK)
	if roles := up.One(t).Value(t, "X-Auth-Roles"); roles != "user" {
		t.Errorf("the token has the roles %q", roles)
	}
	b.part("programs", "Programs", "backup script")
	if strings.Contains(b.text(), "agt_") {
		t.Error("the token is shown again")
	}
	b.click("form[action='/account/tokens/revoke'] button")
	b.shows("/account", http.StatusOK, "The token is revoked.")
	ask(http.StatusUnauthorized)
	up.None(t)
}

// newPassword: a mistake is told beside the form. After the change, the new password
// opens the other device, and the old one nothing.
func newPassword(t *testing.T, laptop, phone *tab, g *world.Instance, up *world.Recorder) {
	change := func(current, next, again string) {
		laptop.write("#current", current)
		laptop.write("#new", next)
		laptop.write("#again", again)
		laptop.click("form[action='/account/password'] button")
	}
	laptop.part("password", "Password", "Current password")
	change("wrong", "looking-glass", "looking-glass")
	laptop.shows("/account/password", http.StatusForbidden, "Error: Password", "The current password is wrong.")
	world.Until(t, "the focus on the mistake", func() bool {
		return laptop.value("document.activeElement.id + ' ' + document.activeElement.getAttribute('aria-invalid')") ==
			"current true"
	})
	change("wonderland", "looking-glass", "looking-glas")
	laptop.shows("/account/password", http.StatusBadRequest, "differ.")
	change("wonderland", "looking-glass", "looking-glass")
	laptop.shows("/account", http.StatusOK, "Your password is changed.")
	up.All()
	laptop.open(g.Base + "/secure-resource")
	wantAsked(t, up, "GET", "/secure-resource", "alice")
	phone.signIn("alice")
	phone.shows("/login", http.StatusUnauthorized, "Invalid username or password.")
	phone.write("#password", "looking-glass")
	phone.click("button[type=submit]")
	phone.is(g.Base + "/secure-resource")
	wantAsked(t, up, "GET", "/secure-resource", "alice")
	content, err := os.ReadFile(filepath.Join(g.Dir, "accounts.yaml"))
	if err != nil || !strings.Contains(string(content),
		"- username: alice # admin\n  name: Alice Example\n  roles: [user, admin]\n"+
			"  password_hash: \"$argon2id$v=19$m=19456,") {
		t.Errorf("%v: accounts.yaml has\n%s", err, content)
	}
	if log := g.Log.String(); strings.Contains(log, "looking-glass") || strings.Contains(log, "$argon2id$") {
		t.Error("the log has the password or its hash")
	}
}
