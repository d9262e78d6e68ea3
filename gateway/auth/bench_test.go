package auth

import (
	"net/http"
	"net/netip"
	"testing"
)

func BenchmarkBasicWarm(b *testing.B) {
	f := newBasicFixture(b)
	creds := &Credentials{Scheme: "basic", Value: encoded("service:s3rvice"), Client: netip.MustParseAddr("192.0.2.7")}
	if _, err := f.Authenticate(b.Context(), creds); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.Authenticate(b.Context(), creds); err != nil {
			b.Fatal(err)
		}
	}
	if got := f.hasher.Computed(); got != 1 {
		b.Errorf("%d password hashes computed, want one", got)
	}
}

func BenchmarkReadCredentials(b *testing.B) {
	header := http.Header{
		"Authorization": {"Bearer aaaaaaaaaaaa.bbbbbbbbbbbbbbbbbbbbbbbb.cccccccccccc"},
		"Cookie":        {"theme=dark; session_id=0123456789abcdefghijklmnopqrstuvwxyzABCDEFG; lang=en"},
		"User-Agent":    {"test/1"},
	}
	client := netip.MustParseAddr("192.0.2.7")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ReadCredentials(header, testCookies, client); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkToApplication(b *testing.B) {
	lines := []string{"theme=dark; session_id=0123456789abcdefghijklmnopqrstuvwxyzABCDEFG; lang=en"}
	b.ReportAllocs()
	for b.Loop() {
		if kept := testCookies.ToApplication(lines, false); len(kept) != 1 {
			b.Fatal(kept)
		}
	}
}
