package headername

import (
	"flag"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"authgate/internal/test/headernametest"
)

var update = flag.Bool("update", false, "write the tables of docs/identity-headers.md")

const document = "../../../docs/identity-headers.md"

// table is a list as a table of the document, with one row for the names that a product has
// of one source.
func table(t *testing.T, list []documented) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("| Header | Product | Source |\n|---|---|---|\n")
	for i, each := range list {
		same := func(other documented) bool { return other.product == each.product && other.source == each.source }
		if slices.ContainsFunc(list[:i], same) {
			continue // in the row of the first
		}
		var names []string
		for _, other := range list[i:] {
			if same(other) {
				names = append(names, "`"+other.name+"`")
			}
		}
		source := each.source
		if source != precaution {
			u, err := url.Parse(source)
			if err != nil || u.Scheme != "https" || u.Host == "" {
				t.Errorf("the source of %s is %q, want an https URL", each.name, source)
				continue
			}
			source = "[" + u.Host + "](" + source + ")"
		}
		b.WriteString("| " + strings.Join(names, ", ") + " | " + each.product + " | " + source + " |\n")
	}
	return b.String()
}

// The document lists what is removed, each with its product and source.
func TestIdentityHeadersDocument(t *testing.T) {
	t.Parallel()
	for _, list := range [][]documented{identities, misleading} {
		byName := func(a, b documented) int {
			return strings.Compare(strings.TrimLeft(strings.ToLower(a.name), "$"),
				strings.TrimLeft(strings.ToLower(b.name), "$"))
		}
		if !slices.IsSortedFunc(list[:len(list)-1], byName) { // $WS* is at the end
			t.Error("a list is not in the order of its names")
		}
		for _, each := range list {
			if each.product == "" {
				t.Errorf("%s has no product", each.name)
			}
		}
	}
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(text), "\n## ")
	if len(parts) != 3 {
		t.Fatalf("%s has %d parts", document, len(parts))
	}
	for i, list := range [][]documented{identities, misleading} {
		want, part := table(t, list), parts[i+1]
		begin := strings.Index(part, "| Header ")
		end := begin + strings.LastIndex(part[begin:], "|\n") + len("|\n")
		if part[begin:end] != want && !*update {
			t.Errorf("%s: the table of %q is not that of the code; run the test with -update",
				document, strings.SplitN(part, "\n", 2)[0])
		}
		parts[i+1] = part[:begin] + want + part[end:]
	}
	if *update {
		if err := os.WriteFile(document, []byte(strings.Join(parts, "\n## ")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// What documented products trust is refused in every spelling, and secrets that they
// verify, and what clients send to everybody, is not.
func TestProducts(t *testing.T) {
	t.Parallel()
	for class, names := range map[Class][]string{
		Identity: {
			"X-Auth-CouchDB-UserName", "X-Auth-CouchDB-Roles", "X-Auth-CouchDB-Token", "Impersonate-User",
			"Impersonate-Group", "Impersonate-Uid", "Impersonate-Extra-scopes", "X-Scope-OrgID", "kubeflow-userid",
			"kubeflow-groups", "X-Hasura-Role", "X-Hasura-User-Id", "X-Rh-Identity", "CAS-User", "CAS_mail",
			"$WSRU", "$WSAT", "$WSCC", "$WSRA", "$WSRH", "$WSPR", "$WSIS", "$WSSC", "$WSSN",
			"Proxy-Auth-Cert", "Proxy-Ssl-Id", "X-Amzn-Request-Context", "X-User-Email", "X-User-Name", "X-User-Roles",
			"X-User-Groups", "X-Logged-In-User", "Http-Remote-User", "Redirect-Remote-User", "X-Alfresco-Remote-User",
			"X-ProxiedEntitiesChain", "es-security-runas-user", "x-webobjects-remote-user", "Thanos-Tenant",
			"X-OpenWebUI-User-Email", "WL-Proxy-Client-Cert", "X-Forwarded-Login",
		},
		Misleading: {
			"X-Middleware-Subrequest", "x-middleware-subrequest-id", "X-Matched-Path", "X-Invoke-Path",
			"X-Sendfile-Type", "X-Accel-Mapping", "X-WAWS-Unencoded-URL", "X-HTTP-Method-Override",
		},
		Forwarded: {
			"X-Proxied-Https", "X-ProxyHost", "WL-Proxy-Client-IP", "X-Original-Host", "X-Forwarded-Port",
			"Fly-Forwarded-Port",
		},
		Free: {
			"X-Hasura-Admin-Secret", "X-Hasura-Access-Key", "X-Auth-Token", "X-Auth-Key", "X-Api-Key", "X-User-Id",
			"X-User-Token", "X-User-Agent", "X-Middleware-Prefetch", "X-Nextjs-Data", "X-Requested-With",
			"X-Amzn-Trace-Id", "X-CSRF-Token", "Sec-Fetch-Site", "Ws-Name", "Case-Id", "X-Vault-Token",
			"X-Grafana-Org-Id", "Idempotency-Key", "Traceparent",
		},
	} {
		filter := NewFilter()
		for _, name := range names {
			spellings := headernametest.Spellings(name)
			if class == Free {
				spellings = []string{name}
			}
			for _, spelling := range spellings {
				if got := Of(Fold(spelling)); got != class || class != Free && !filter.Finds(spelling) {
					t.Errorf("%s is of class %d, want %d, found %t", spelling, got, class, filter.Finds(spelling))
				}
			}
		}
	}
}
