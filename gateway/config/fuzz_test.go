package config

import (
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"authgate/gateway/config/listening"
	"authgate/gateway/config/section"
	"authgate/internal/test/must"
	"authgate/policy"
)

// FuzzParse checks that each file gives either a Config with the properties that
// the gateway needs, or Diagnostics with places in the file, and the same result
// each time.
func FuzzParse(f *testing.F) {
	for _, path := range append(archives(f, "good"), archives(f, "bad")...) {
		_, cases := goldenCases(f, path)
		for _, c := range cases {
			f.Add(c.source(f))
		}
	}
	f.Add(must.Get(os.ReadFile("../../config.yaml"))(f))
	f.Fuzz(func(t *testing.T, source []byte) {
		// In testdata, so that side files exist.
		const path = "testdata/bad/fuzz.yaml"
		cfg, err := parse(path, source, lookup)
		again, errAgain := parse(path, slices.Clone(source), lookup)
		if diff := cmp.Diff(cfg, again, exported); diff != "" {
			t.Fatalf("the same file is read in two ways:\n%s", diff)
		}
		if err == nil {
			if errAgain != nil {
				t.Fatalf("the second time: %v", errAgain)
			}
			checkHolds(t, cfg)
			return
		}
		diagnostics, ok := errors.AsType[Diagnostics](err)
		if !ok || len(diagnostics) == 0 || cfg != nil || errAgain == nil || errAgain.Error() != err.Error() {
			t.Fatalf("got %v and %T %v, want Diagnostics alone; the second time %v", cfg, err, err, errAgain)
		}
		checkPoints(t, path, source, diagnostics)
	})
}

// checkPoints checks that diagnostics are complete and in order, with places in
// the file.
func checkPoints(t *testing.T, path string, source []byte, diagnostics Diagnostics) {
	t.Helper()
	lines := strings.Split(strings.ReplaceAll(string(source), "\r\n", "\n"), "\n")
	line, column := 1, 0
	for _, d := range diagnostics {
		if d.File == "" || d.Key == "" || d.Message == "" || strings.ContainsAny(d.String(), "\n\r\x00\x1b") {
			t.Fatalf("not a complete diagnostic on one line: %+v", d)
		}
		if d.File != path {
			continue
		}
		if d.Line < 1 || d.Line > len(lines) || d.Column < 1 || d.Column > utf8.RuneCountInString(lines[d.Line-1])+1 {
			t.Fatalf("a place outside of the file: %+v", d)
		}
		if d.Line < line || d.Line == line && d.Column < column {
			t.Fatalf("out of order after line %d, column %d: %+v", line, column, d)
		}
		line, column = d.Line, d.Column
		if shown := (Diagnostics{d}).Error(); d.Source != "" && strings.Count(shown, "\n") != 2 {
			t.Fatalf("not a diagnostic, a line and a caret:\n%s", shown)
		}
	}
}

// checkHolds checks the properties that other packages need.
func checkHolds(t *testing.T, cfg *Config) {
	t.Helper()
	holds := func(property bool, what ...any) {
		t.Helper()
		if !property {
			t.Fatalf("it must not have %+v", what)
		}
	}
	sound := func(secret Secret) bool { return secret == "" || secret.Check() == nil }
	keySize := func(key Secret) bool { return len(key) == 0 || len(key) >= 32 && sound(key) }
	holds(sound(cfg.Store.Password) && sound(cfg.Store.SentinelPassword), cfg.Store)
	for _, host := range cfg.Hosts() {
		holds(section.CheckWildcard(host) == nil, host)
	}
	holds(http.NewCrossOriginProtection().AddTrustedOrigin(cfg.PublicURL.String()) == nil &&
		cfg.PublicURL.Scheme == "https", cfg.PublicURL)
	holds(cfg.Token.Issuer != "" && len(cfg.Token.Audience) > 0 && keySize(cfg.Token.Secret), cfg.Token)
	holds(cfg.Token.AccessLifetime > 0 && cfg.Token.RefreshLifetime <= 30*24*time.Hour && cfg.Session.Lifetime > 0,
		cfg.Token, cfg.Session)
	holds(cfg.Limits.LoginFailures >= 1 && cfg.Limits.BodyPause > 0, cfg.Limits)
	holds(cfg.ShutdownDelay >= 0 && cfg.ShutdownTimeout > 0, cfg.ShutdownDelay, cfg.ShutdownTimeout)
	holds(keySize(cfg.Store.EncryptionKey), cfg.Store)
	holds(cfg.TLS.Mode != listening.TLSACME ||
		len(cfg.TLS.Domains) > 0 && (cfg.Store.Driver != StoreRedis || cfg.Store.EncryptionKey != ""), cfg.TLS, cfg.Store)
	for _, p := range cfg.Providers {
		openID := slices.Contains(p.Scopes, "openid") && p.Issuer != ""
		holds(p.Name != policy.LocalProvider && p.Name != policy.BasicProvider, p)
		holds(policy.CheckName(p.ClientID) == nil && sound(p.ClientSecret), p)
		holds(p.Timeout > 0 && (openID || p.UserinfoURL != ""), p)
	}
	for _, trusted := range cfg.Token.TrustedIssuers {
		holds(trusted.Issuer != cfg.Token.Issuer && trusted.Timeout > 0, trusted)
	}
	for _, u := range cfg.Accounts.Users {
		holds(u.Username != "" && u.Hash.Encoded() == u.PasswordHash.Reveal() && !slices.Contains(u.Roles, ""), u)
	}
	table := cfg.Table().Routes()
	holds(len(table) == len(cfg.Routes), table)
	for i, r := range cfg.Routes {
		u, ok := cfg.Upstreams[r.Upstream]
		verifyOnly := r.Upstream == "" && r.Timeout == 0 && r.StripPrefix == "" && !r.ForwardCredentials && r.MaxBody == 0
		holds(verifyOnly || ok && len(u.URLs) > 0 && !slices.Contains(u.URLs, nil) &&
			u.IdentityHeaders != nil && u.Timeout > 0, r, u)
		holds(r.Policy == nil || len(r.Policy) > 0, r)
		got := table[i]
		holds(got.Pattern == r.Match && got.Name == r.Name && slices.Equal(got.Mechanisms, r.Auth) &&
			(got.Policy == nil) == (r.Policy == nil), r, got)
	}
}
