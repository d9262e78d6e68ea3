package examples

import (
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"authgate/e2e/world"
	"authgate/gateway/config"
	"authgate/gateway/people/accounts"
	"authgate/gateway/people/password"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// These tests compare the keys that the documents name, and their defaults, with those that
// there are.

// keyEntry matches the entry of a key: the key, and its default if it has one. That each
// key has an entry, with its default, is for gateway/config to test.
var keyEntry = regexp.MustCompile("(?m)^- `([^`]+)` \\([^;\n]*(?:; default: (.*)|; .*)?\\)$")

// documentedDefaults returns the default of each key, as the pages below
// docs/configuration write it. A key without one has "".
func documentedDefaults(t *testing.T) map[string]string {
	t.Helper()
	defaults := map[string]string{}
	for name, doc := range world.Documents(t) {
		if strings.HasPrefix(name, "docs/configuration/") {
			for _, entry := range keyEntry.FindAllStringSubmatch(doc.Prose, -1) {
				defaults[entry[1]] = entry[2]
			}
		}
	}
	if len(defaults) < 100 {
		t.Fatalf("docs/configuration has %d keys", len(defaults))
	}
	return defaults
}

// neededWhereWritten matches keys that are absent by default, and have no empty value.
var neededWhereWritten = regexp.MustCompile(`^(accounts\.users\[\]\.until|oauth\.clients\[\]\.exchange\..*|` +
	`oauth\.clients\[\]\.federation\[\]\..*|oauth\.cross_app\[\]\..*|` +
	`token\.trusted_issuers\[\]\.(audience|introspection\..*))$`)

// TestDocsDefaults writes every default that the pages give into a
// configuration, which must not change what it means.
func TestDocsDefaults(t *testing.T) {
	t.Parallel()
	short, long := world.DecodeYAML(t, complete(fragmentBase)), world.DecodeYAML(t, complete(fragmentBase))
	set(short, "upstreams.NAME.assertion", map[string]any{}) // a section that has a meaning when it is empty
	for _, m := range []map[string]any{short, long} {
		set(m, "routes[].app.title", "Wiki") // needed where the section is
	}
	for key, fallback := range documentedDefaults(t) {
		if strings.HasPrefix(key, "tls.dns.") {
			continue // keys of different providers, which exclude each other
		}
		if neededWhereWritten.MatchString(key) {
			continue
		}
		if key == "oauth.clients[].jwks.keys" {
			continue // a set without keys is a mistake: it would make the client a public one
		}
		if span := codeSpan.FindStringSubmatch(fallback); span != nil && span[0] == fallback {
			var value any
			if err := yaml.Unmarshal([]byte(span[1]), &value); err != nil {
				t.Errorf("the default of %s: %v", key, err)
			}
			set(long, key, value)
		}
	}
	if len(long) == len(short) {
		t.Fatal("docs/configuration gives no defaults")
	}
	ignored := cmp.Options{
		cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(config.Config{}, accounts.Account{}),
		cmpopts.EquateComparable(netip.Prefix{}), cmpopts.IgnoreTypes(password.Hash{}),
	}
	if diff := cmp.Diff(parseConfig(t, short), parseConfig(t, long), ignored); diff != "" {
		t.Errorf("docs/configuration gives other defaults (+) than there are (-):\n%s", diff)
	}
}

func parseConfig(t *testing.T, m map[string]any) *config.Config {
	t.Helper()
	text := encodeYAML(t, m)
	cfg, err := config.Parse("config.yaml", []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return cfg
}

// set puts a value at a path: NAME is the upstream of fragmentBase, [] the
// first element.
func set(m map[string]any, path string, value any) {
	for {
		key, rest, more := strings.Cut(strings.ReplaceAll(path, ".NAME.", ".app."), ".")
		if !more {
			m[key] = value
			return
		}
		if list, ok := strings.CutSuffix(key, "[]"); ok {
			m = m[list].([]any)[0].(map[string]any)
		} else {
			if m[key] == nil {
				m[key] = map[string]any{}
			}
			m = m[key].(map[string]any)
		}
		path = rest
	}
}

// keySpan matches a key of the configuration in prose, with what may follow it: a
// value after a colon, or the default in brackets.
var keySpan = regexp.MustCompile("`((?:[a-z][a-z0-9_]*(?:\\[\\]|\\.NAME)?\\.)+[a-z][a-z0-9_]*)(?:: [^`]*)?`" +
	"(?: \\(`([^`]+)`\\))?")

// TestDocsKeyNames checks that each key that a document names exists, and that a
// default in brackets after it is the one below docs/configuration.
func TestDocsKeyNames(t *testing.T) {
	t.Parallel()
	defaults, sections := documentedDefaults(t), map[string]bool{}
	for key := range defaults {
		for at, c := range key {
			if c == '.' {
				sections[key[:at]], sections[strings.TrimSuffix(key[:at], "[]")] = true, true
			}
		}
	}
	keys := slices.Collect(maps.Keys(defaults))
	for name, doc := range world.Documents(t) {
		for _, found := range keySpan.FindAllStringSubmatch(doc.Prose, -1) {
			first, _, _ := strings.Cut(found[1], ".")
			is, ok := defaults[found[1]]
			switch {
			case !sections[first] || sections[found[1]] || strings.HasPrefix(name, "docs/migrate/"): // which has keys of others
			case slices.Contains([]string{"accounts.yaml", "store.key", "token.pem"}, found[1]): // files
			case !ok && slices.ContainsFunc(keys,
				func(key string) bool { return strings.HasSuffix(key, ".NAME."+found[1]) }): // of an upstream
			case !ok:
				t.Errorf("%s: there is no key %s", name, found[1])
			case found[2] != "" && found[2] != strings.Trim(is, "`"):
				t.Errorf("%s: the default of %s is %s, not %s", name, found[1], is, found[2])
			}
		}
	}
}
