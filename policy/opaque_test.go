package policy_test

import (
	"errors"
	"net/url"
	"path"
	"strings"
	"testing"

	"authgate/policy"
)

func TestParseTargetOpaque(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]policy.Path{
		"/a/b%20c":       {Decoded: "/a/b c"},
		"/a%2Fb":         {Decoded: "/a%2Fb", Slashed: "/a/b"},
		"/%2Fa%2f":       {Decoded: "/%2Fa%2F", Slashed: "//a/"},
		"/a%5Cb":         {Decoded: `/a\b`, Opaque: true},
		"//a///b//":      {Decoded: "//a///b//", Opaque: true},
		"/a%252Fb%255Cc": {Decoded: "/a%2Fb%5Cc", Opaque: true},
		"/a%2F%252Fb":    {Decoded: "/a%2F%2Fb", Slashed: "/a/%2Fb", Opaque: true},
		"/é%2F%2F%C3%A9": {Decoded: "/é%2F%2Fé", Slashed: "/é//é"},
		"/a...b//..c/.d": {Decoded: "/a...b//..c/.d", Opaque: true},
	} {
		want.Raw = target
		if got, err := policy.ParseTargetOpaque(target); err != nil || got != want {
			t.Errorf("%q = %+v, %v; want %+v", target, got, err, want)
		}
	}
	for _, target := range []string{
		"", "a", "*", "//..", "//../a", "/a//..", "/a/%2e%2e/b", "/a%2F..", "/a%2F..%2Fb", "/a%5C..%5Cb", "/..%5Ca",
		"/..%2Fa", "/a%252F..%252Fb", "/%252e%252e%252Fa", "/%25252e%25252e/",
		"/a%255C..", "/a%5C.", "/a/.%2Fb", "/.%5Cb", "//./a",
		"/..;x%2Fa", "/a%2F..;x", "/a%2F..%3Bx/b", "/a%2F..%253Bx/b", "/a//;/..", "/a/%00/%2F", "/a%2Fb%0A", "/a//b%7F",
		"/a//%C2%85", "/a//%ff", "/a//%c0%af", "/a//\xff", "/a//%C3\xa9", "/a//%2", "/a//%zz", `/a//b\c`, "/a// b",
		"/a//b#c", "/a//\x01", "/a//b?c d", "/a//b?c#d",
	} {
		got, err := policy.ParseTargetOpaque(target)
		if !errors.As(err, new(*policy.TargetError)) || got != (policy.Path{}) {
			t.Errorf("%q = %+v, %v; want that it is refused", target, got, err)
		}
	}
}

// A path of an opaque route leads to a route like it in every reading, or it is refused.
func TestCheckReadings(t *testing.T) {
	t.Parallel()
	all := routes("h/app/", "h/app/{x}/y", "h/one/{x}", "/", "/secret/")
	for i := range all[:3] {
		all[i].EncodedSlashes = policy.OpaqueSlashes
	}
	table := newTable(t, all...)
	for target, want := range map[string]bool{
		"/app/x": true, "/app": true, "/app//x": true, "/app/%2F%5C": true, "/app/a%252Fb": true, "/app/%2561//": true,
		"/app/;x//y": true, "/one/a": true, "/one/a%2561": true,
		"/one/a%2Fb": false, "/one/a%5Cb": false, "/one/a%252Fb": false, "/one/a%255Cb": false, "/one/%2Fa%2Fb": false,
		"/one/a;%2Fb": false, "/one/;a": false,
	} {
		p, err := policy.ParseTargetOpaque(target)
		if err != nil {
			t.Fatal(target, err)
		}
		req := &policy.Request{Method: "GET", Host: "h", Path: p}
		found, ok := table.Match(req)
		if !ok || found.Index >= 3 {
			t.Errorf("%s: leads to no opaque route", target)
			continue
		}
		if _, err := table.Find(req); (err == nil) != want {
			t.Errorf("%s: %v, want %t", target, err, want)
		}
	}
}

// Whatever an application does with an opaque path, it finds no dot segment and no control
// character, and nothing that leads out of the routes.
func FuzzParseTargetOpaque(f *testing.F) {
	for _, seed := range []string{
		"/a%2F..%5Cb", "//a//b", "/%252e%252e%252F", "/a;x%2F..;y", "/é%C3%A9%2F", "/a%5c%5C", "/a/b?c", "/%25%32%65/",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, target string) {
		p, err := policy.ParseTargetOpaque(target)
		if err != nil {
			if strict, err := policy.ParseTarget(target); err == nil {
				t.Fatalf("%q is refused, and ParseTarget reads %+v", target, strict)
			}
			return
		}
		if sent := p.Raw; sent+strings.TrimPrefix(target, sent) != target {
			t.Fatalf("%q is forwarded as %q", target, sent)
		}
		read := p.Raw
		for range strings.Count(p.Raw, "%") + 1 {
			if again, err := url.PathUnescape(read); err == nil {
				read = again
			}
			for _, seen := range []string{read, strings.ReplaceAll(read, `\`, "/")} {
				wantNoDots(t, target, seen)
			}
		}
		for _, seen := range p.Readings() {
			wantNoDots(t, target, seen)
			if clean := path.Clean(seen); clean != seen && clean+"/" != seen {
				t.Errorf("%q: the reading %q is not in canonical form", target, seen)
			}
		}
		if strings.ContainsAny(p.Decoded, "\x00\r\n\t\x7f") {
			t.Errorf("%q: %q has a control character", target, p.Decoded)
		}
	})
}

// wantNoDots fails the test if a segment of a path is a dot segment, with or without what
// follows a ";".
func wantNoDots(t *testing.T, target, seen string) {
	t.Helper()
	for segment := range strings.SplitSeq(seen, "/") {
		if name, _, _ := strings.Cut(segment, ";"); name == "." || name == ".." {
			t.Fatalf("%q: read as %q, it has a dot segment", target, seen)
		}
	}
}
