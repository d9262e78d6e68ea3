package wire

import (
	"bufio"
	"crypto/tls"
	"io"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// TestAdvisoriesHost: the upstream gets the host that the gateway decided on,
// whatever a client says elsewhere.
func TestAdvisoriesHost(t *testing.T) {
	t.Parallel()
	up := world.Record(t)
	g := world.Start(t, world.People+world.App(up.URL)+"tls: {domains: [localhost, other.example]}\nroutes: [{match: "+
		"/, upstream: app, auth: [none]}, {match: admin.example/, upstream: app, auth: [session]}]\n")
	t.Run("CVE-2018-21246 Caddy, CVE-2026-48491 Traefik, another name by TLS", func(t *testing.T) {
		for _, name := range []string{"", "localhost", "other.example", "ADMIN.EXAMPLE"} {
			conn, err := tls.Dial("tcp", world.Authority(g.Base),
				&tls.Config{ServerName: name, InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			world.Limit(t, conn)
			_, err = io.WriteString(conn, "GET /x HTTP/1.1\r\nHost: admin.example\r\n\r\n")
			if err == nil {
				_, err = world.ReadAnswer(bufio.NewReader(conn))
			}
			if err != nil {
				t.Errorf("with the server name %q: %v", name, err)
			}
			up.None(t)
		}
	})
	get := func(more ...field) []field {
		return append([]field{{":method", "GET"}, {":scheme", "https"}, {":path", "/x"}}, more...)
	}
	other := []field{{":scheme", "https"}, {":authority", "other.example"}, {":path", "/x"}}
	for name, fields := range map[string][]field{
		"CVE-2021-39242 HAProxy, Host and authority": get(field{":authority", "other.example"},
			field{"host", "admin.example"}),
		"CVE-2021-39242 HAProxy, the other way": get(field{":authority", "admin.example"},
			field{"host", "other.example"}),
		"CVE-2021-39242 HAProxy, two hosts": get(field{"host", "other.example"},
			field{"host", "admin.example"}),
		"CVE-2021-39240 HAProxy, a path in the authority": get(field{":authority", "other.example/admin"},
			field{"host", "admin.example"}),
		"CVE-2021-39240 HAProxy, a user in the authority": get(field{":authority", "other.example@admin.example"}),
		"CVE-2021-39240 HAProxy, an authority in the scheme": {{":method", "GET"}, {":scheme", "https://admin.example/?"},
			{":authority", "other.example"}, {":path", "/x"}},
		"CVE-2021-39241 HAProxy, a target in the method": append(other,
			field{":method", "GET http://admin.example/x HTTP/1.1\r\nHost: admin.example\r\n\r\nGET"}),
		"CVE-2021-39241 HAProxy, spaces in the method": append(other, field{":method", "GET /secrets?"}),
		"a good request": append(other, field{":method", "GET"}),
	} {
		t.Run(name, func(t *testing.T) {
			_, _ = raw2(t, g, fields...) // or the gateway resets the stream
			got := up.All()
			for _, m := range got {
				if m.Line != "GET /x HTTP/1.1" || strings.Join(m.Values("Host"), " ") != "other.example" {
					t.Errorf("the upstream gets %q for the hosts %q", m.Line, m.Values("Host"))
				}
			}
			if name == "a good request" && len(got) != 1 {
				t.Errorf("%d requests reach the upstream, expected one", len(got))
			}
		})
	}
}
