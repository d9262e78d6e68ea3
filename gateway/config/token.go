package config

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/golang-jwt/jwt/v5"

	"authgate/gateway/config/strictyaml"
	"authgate/policy"
)

// Bounds of tokens.
const (
	maxRefreshLifetime = 30 * 24 * time.Hour
	minRSABits         = 2048
)

// checkToken checks the mechanism of tokens.
func (l *loader) checkToken() {
	t := l.cfg.Token
	l.oneOf("token.algorithm", t.Algorithm, AlgorithmHS256, AlgorithmRS256)
	l.oneOf("token.delivery", t.Delivery, DeliveryBody, DeliveryCookie)
	l.checkKeys()
	if strings.ContainsFunc(t.Issuer, unicode.IsControl) || strings.TrimSpace(t.Issuer) != t.Issuer {
		l.fault("token.issuer", "%q begins or ends with a space, or contains a control character", t.Issuer)
	}
	if len(t.Audience) == 0 {
		l.fault("token.audience", "must not be empty; every token names its audience")
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

// checkKeys checks the keys that sign tokens. It refuses a key that the algorithm
// does not use, which would only look as if it had an effect.
func (l *loader) checkKeys() {
	t := l.cfg.Token
	switch t.Algorithm {
	case AlgorithmHS256:
		l.checkKeyLength("token.secret", t.Secret)
		if t.PrivateKey != "" {
			l.fault("token.private_key", "has no effect with token.algorithm HS256; set algorithm: RS256, or remove this key")
		}
	case AlgorithmRS256:
		if t.Secret != "" {
			l.fault("token.secret", "has no effect with token.algorithm RS256; set algorithm: HS256, or remove this key")
		}
		if t.PrivateKey != "" {
			if err := checkRSA(t.PrivateKey); err != nil {
				l.fault("token.private_key", "%v", err)
			}
		}
	}
}

// checkKeyLength checks a symmetric key. The gateway generates a key that is not
// given.
func (l *loader) checkKeyLength(path string, key Secret) {
	if n := len(key); n > 0 && n < sha256.Size {
		l.fault(path, "has %d bytes; at least %d are needed, for example from `openssl rand -base64 32`", n, sha256.Size)
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
		return fmt.Errorf("%s contains no RSA private key in PEM (PKCS #1 or PKCS #8)", path)
	}
	if bits := key.N.BitLen(); bits < minRSABits {
		return fmt.Errorf("the key in %s has %d bits; at least %d are needed", path, bits, minRSABits)
	}
	return nil
}
