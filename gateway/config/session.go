package config

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/net/http/httpguts"

	"authgate/gateway/config/strictyaml"
	"authgate/gateway/cookiename"
	"authgate/policy"
)

// Bounds of tokens.
const (
	maxRefreshLifetime = 30 * 24 * time.Hour
	minRSABits         = 2048
)

// checkRealm checks basic.realm, which stands in quotes in WWW-Authenticate.
func (l *loader) checkRealm() {
	realm := l.cfg.Basic.Realm
	switch {
	case strings.TrimSpace(realm) == "":
		l.fault("basic.realm", "must not be empty")
	case strings.ContainsAny(realm, `"\`) || strings.ContainsFunc(realm, unicode.IsControl):
		l.fault("basic.realm", `%q holds a quote, a backslash or a control character`, realm)
	}
}

// lifetime checks a duration that becomes the Max-Age of a cookie or the exp
// of a token, which count whole seconds.
func (l *loader) lifetime(key string, d time.Duration) {
	switch {
	case d == 0:
		l.fault(key, "must be longer than 0")
	case d < time.Second:
		l.fault(key, "must be at least 1s")
	}
}

// checkSession checks the mechanism of sessions.
func (l *loader) checkSession() {
	l.lifetime("session.lifetime", l.cfg.Session.Lifetime)
	l.oneOf("session.same_site", l.cfg.Session.SameSite, "lax", "strict", "none")
}

// checkCookies checks that all cookies have names and that these are distinct.
func (l *loader) checkCookies() {
	taken := map[string]string{
		CookieAccess: "the tokens (token.delivery)", CookieRefresh: "the tokens (token.delivery)",
		CookieLogin: "logins under way at a provider",
	}
	cookies := []struct{ key, name string }{
		{"delegated.cookie", l.cfg.Delegated.Cookie}, {"session.cookie", l.cfg.Session.Cookie},
	}
	if l.main.Given("delegated.cookie") { // the fault is shown at one that is written
		slices.Reverse(cookies)
	}
	for _, c := range cookies {
		if !httpguts.ValidHeaderFieldName(c.name) {
			l.fault(c.key, "%q is not the name of a cookie; use letters, digits, - and _", c.name)
			continue
		}
		if cookiename.Marked(c.name) {
			l.fault(c.key, "%q holds %s, which marks cookies of applications; choose another name", c.name, cookiename.Mark)
			continue
		}
		if user, twice := taken[c.name]; twice {
			l.fault(c.key, "%q is the cookie of %s already", c.name, user)
			continue
		}
		taken[c.name] = c.key
	}
}

// checkToken checks the mechanism of tokens.
func (l *loader) checkToken() {
	t := l.cfg.Token
	l.oneOf("token.algorithm", t.Algorithm, AlgorithmHS256, AlgorithmRS256)
	l.oneOf("token.delivery", t.Delivery, DeliveryBody, DeliveryCookie)
	l.checkKeys()
	if strings.ContainsFunc(t.Issuer, unicode.IsControl) || strings.TrimSpace(t.Issuer) != t.Issuer {
		l.fault("token.issuer", "%q has a space before or after it or a control character in it", t.Issuer)
	}
	if len(t.Audience) == 0 {
		l.fault("token.audience", "must not be empty; every token says whom it is for")
	}
	l.checkAudience("token.audience", t.Audience)
	for i, trait := range t.BindRefresh {
		path := fmt.Sprintf("token.bind_refresh[%d]", i)
		l.oneOf(path, trait, "user_agent", "ip")
		if slices.Contains(t.BindRefresh[:i], trait) {
			l.fault(path, "%q is listed twice", trait)
		}
	}
	l.lifetime("token.access_lifetime", t.AccessLifetime)
	l.lifetime("token.refresh_lifetime", t.RefreshLifetime)
	if t.RefreshLifetime > maxRefreshLifetime {
		l.fault("token.refresh_lifetime", "is longer than 720h (30 days); 168h (7 days) to 720h are recommended")
	}
	if t.RefreshLifetime > 0 && t.AccessLifetime >= t.RefreshLifetime {
		l.fault("token.access_lifetime", "must be shorter than token.refresh_lifetime (%v)", t.RefreshLifetime)
	}
}

func (l *loader) checkAudience(path string, list []string) {
	for i, audience := range list {
		if err := policy.CheckName(audience); err != nil {
			l.fault(fmt.Sprintf("%s[%d]", path, i), "the audience %v", err)
		}
	}
}

// checkKeys checks what signs the tokens. A key that the algorithm does not
// use would only look as if it were in force.
func (l *loader) checkKeys() {
	t := l.cfg.Token
	switch t.Algorithm {
	case AlgorithmHS256:
		l.checkKeyLength("token.secret", t.Secret)
		if t.PrivateKey != "" {
			l.fault("token.private_key", "would not be used with token.algorithm HS256; set algorithm: RS256 or remove this key")
		}
	case AlgorithmRS256:
		if t.Secret != "" {
			l.fault("token.secret", "would not be used with token.algorithm RS256; set algorithm: HS256 or remove this key")
		}
		if t.PrivateKey != "" {
			if err := checkRSA(t.PrivateKey); err != nil {
				l.fault("token.private_key", "%v", err)
			}
		}
	}
}

// checkKeyLength checks a symmetric key. An empty one is generated later.
func (l *loader) checkKeyLength(path string, key Secret) {
	if n := len(key); n > 0 && n < sha256.Size {
		l.fault(path, "has %d bytes; at least %d are needed, for instance from `openssl rand -base64 32`", n, sha256.Size)
	}
}

// checkRSA checks a PEM file with an RSA key (PKCS #1 or PKCS #8).
func checkRSA(path string) error {
	content, err := strictyaml.ReadFile(path, strictyaml.MaxSecret)
	if err != nil {
		return err
	}
	key, err := jwt.ParseRSAPrivateKeyFromPEM(content)
	if err != nil {
		return fmt.Errorf("%s holds no RSA private key in PEM (PKCS #1 or PKCS #8)", path)
	}
	if bits := key.N.BitLen(); bits < minRSABits {
		return fmt.Errorf("the key in %s has %d bits; at least %d are needed", path, bits, minRSABits)
	}
	return nil
}
