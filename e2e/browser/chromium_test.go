package browser

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"authgate/e2e/world"

	"github.com/chromedp/chromedp"
)

// TestBrowser checks in Chromium what people see, what the browser itself does
// with cookies, policies and redirects, and what reaches the upstream.
func TestBrowser(t *testing.T) {
	t.Parallel()
	c := startChromium(t)
	for name, story := range map[string]func(*testing.T, *chromium){
		"local accounts":               localAccountsInBrowser,
		"delegated":                    delegatedInBrowser,
		"other sites, SameSite=Lax":    otherSitesLax,
		"other sites, SameSite=None":   otherSitesNone,
		"many hosts":                   hostsInBrowser,
		"many hosts, at a provider":    hostsAtProvider,
		"many hosts, SameSite=Strict":  hostsStrict,
		"many hosts, one cookie":       hostsByOneCookie,
		"many hosts, strict, by links": hostsStrictFromElsewhere,
		"many hosts, by links":         hostsByLink,
		"two cookies of one name":      twinCookies,
		"a service worker":             workersInBrowser,
		"account":                      accountInBrowser,
		"pages":                        pagesInBrowser,
		"terminal":                     terminalInBrowser,
		"api":                          apiInBrowser,
		"pages, all of them":           gallery,
		"pages, something slipped in":  slippedIn,
		"start page":                   startPageInBrowser,
		"languages":                    languagesInBrowser,
		"languages, all of them":       languagesFit,
		"a proxy set up wrong":         wrongSetup,
		"passkeys":                     passkeysInBrowser,
		"a password manager":           passwordManagerInBrowser,
		"a security key":               securityKeyInBrowser,
		"codes":                        codesInBrowser,
		"an old sign-in":               oldSignInInBrowser,
		"an answer as a form":          formPostInBrowser,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			story(t, c)
		})
	}
}

// chromium is the browser, one process for all stories.
type chromium struct {
	ctx context.Context
	key *ecdsa.PrivateKey // of all servers that the browser trusts
}

// programVariable is the environment variable that names another program than the browser
// without its own windows, which takes 40 % of the processor time of the whole one. make
// interop runs the tests with that.
const programVariable = "AUTHGATE_CHROMIUM"

// startChromium starts the browser with a new profile and more options. It ends with
// the test.
func startChromium(t *testing.T, more ...chromedp.ExecAllocatorOption) *chromium {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	trusted := sha256.Sum256(public)
	home, output := newProfile(t), &world.Output{}
	ctx, end := chromedp.NewExecAllocator(context.Background(), append(append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(cmp.Or(os.Getenv(programVariable), "chromium-headless-shell")),
		chromedp.UserDataDir(home),
		chromedp.Env("HOME="+home),
		chromedp.NoSandbox, // the sandbox does not run in many containers
		chromedp.DisableGPU,
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("ignore-certificate-errors-spki-list", base64.StdEncoding.EncodeToString(trusted[:])),
		// Other sites are on this machine too, and no request leaves it.
		chromedp.Flag("host-resolver-rules", "MAP *.test 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1"),
		chromedp.WSURLReadTimeout(world.Patience),
		chromedp.CombinedOutput(output)), more...)...)
	t.Cleanup(end)
	c := &chromium{key: key}
	c.ctx, _ = chromedp.NewContext(ctx)
	if err := chromedp.Do(c.ctx); err != nil {
		t.Fatalf("Chromium does not start; is it installed (make deps)? %v\n%s", err, output)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(c.ctx, world.Patience)
		defer cancel()
		if err := chromedp.Cancel(ctx); err != nil {
			t.Errorf("Chromium does not end well: %v\n%s", err, output)
		}
	})
	return c
}

// newProfile returns a folder for the profile of the browser. It allows cookies of
// third parties, which Debian's Chromium blocks and not every browser does. The
// folder is removed when all processes of the browser have ended.
func newProfile(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "chromium-")
	t.Cleanup(func() {
		world.Until(t, "Chromium to leave its folder", func() bool { return os.RemoveAll(dir) == nil })
	})
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, "Default"), 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "Default", "Preferences"),
			[]byte(`{"profile": {"cookie_controls_mode": 0}}`), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// prepared returns a gateway that does not run yet and that the browser trusts, as
// it finds the key of its CA in data.
func (c *chromium) prepared(t *testing.T) *world.Instance {
	t.Helper()
	g := world.Prepare(t)
	der, err := x509.MarshalPKCS8PrivateKey(c.key)
	if err == nil {
		err = os.Mkdir(filepath.Join(g.Dir, "data"), 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	g.Write("data/ca-key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
	return g
}

// gateway starts a gateway with a recorder.
func (c *chromium) gateway(t *testing.T, config string) (*world.Instance, *world.Recorder) {
	t.Helper()
	g, up := c.prepared(t), world.Record(t)
	g.Configure(world.App(up.URL) + config)
	g.Run()
	return g, up
}

// otherSites serves pages at two other origins: far is another site, near is
// another port of the gateway's host, to which the browser sends the same cookies.
func (c *chromium) otherSites(t *testing.T, pages http.Handler) (far, near string) {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, c.key.Public(), c.key)
	if err != nil {
		t.Fatal(err)
	}
	plain, secure := httptest.NewServer(pages), httptest.NewUnstartedServer(pages)
	secure.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{certificate}, PrivateKey: c.key}}}
	secure.StartTLS()
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	return strings.Replace(plain.URL, "127.0.0.1", "evil.test", 1),
		strings.Replace(secure.URL, "127.0.0.1", "localhost", 1)
}
