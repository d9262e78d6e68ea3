package documents

import (
	"regexp"
	"strings"
	"testing"

	"authgate/e2e/world"

	"github.com/goccy/go-yaml"
)

// usualPrefix is a folder that no application has.
const usualPrefix = "/.authgate/"

// otherPrefixes are the pages whose reason for another prefix is on the page.
var otherPrefixes = map[string]string{
	"docs/migrate/oauth2-proxy.md": "/oauth2/", // where oauth2-proxy has its redirect URI, and applications their links
}

// TestDocsPrefix checks that the configurations of documents do not take paths from
// applications: Home Assistant has /auth/, Gitea has users called login. Pages for
// applications that exist already name a prefix in each whole configuration.
func TestDocsPrefix(t *testing.T) {
	t.Parallel()
	seen := 0
	for name, doc := range world.Documents(t) {
		moving := strings.HasPrefix(name, "docs/forward-auth/") || strings.HasPrefix(name, "docs/migrate/")
		for _, b := range doc.Blocks {
			if b.Info != "yaml" && !strings.HasPrefix(b.Info, "yaml ") {
				continue
			}
			var file struct {
				PublicURL string `yaml:"public_url"`
				Endpoints struct{ Prefix string }
			}
			if yaml.Unmarshal([]byte(b.Text()), &file) != nil {
				continue // no configuration, such as a list of accounts
			}
			whole, prefix, other := file.PublicURL != "", file.Endpoints.Prefix, otherPrefixes[name]
			if moving && whole {
				seen++
			}
			if moving && whole && prefix == "" || prefix != "" && prefix != usualPrefix && prefix != other {
				t.Errorf("%s:%d: the prefix is %q, expected %s", name, b.Line, prefix, usualPrefix)
			}
		}
	}
	if seen < 3 {
		t.Errorf("docs/forward-auth and docs/migrate have %d configurations", seen)
	}
}

// askedEndpoint matches the endpoint for proxies below a prefix, also in a URL.
var askedEndpoint = regexp.MustCompile(`(?:\w+://[^/]*)?((?:/[\w.-]+)*/)verify(?:[^.\w]|$)`)

// TestDocsPrefixText checks that pages do not name the endpoint for proxies below another
// prefix than their configurations.
func TestDocsPrefixText(t *testing.T) {
	t.Parallel()
	for name, doc := range world.Documents(t) {
		if !strings.HasPrefix(name, "docs/forward-auth/") && !strings.HasPrefix(name, "docs/migrate/") {
			continue
		}
		for i, line := range strings.Split(doc.Text, "\n") {
			for _, found := range askedEndpoint.FindAllStringSubmatch(line, -1) {
				if prefix := found[1]; prefix != usualPrefix && prefix != otherPrefixes[name] {
					t.Errorf("%s:%d: names %sverify", name, i+1, prefix)
				}
			}
		}
	}
}
