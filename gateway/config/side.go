package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"authgate/gateway/config/strictyaml"
)

// sideReader reads the files that keys of the main file name.
type sideReader struct {
	reader *strictyaml.Reader
	main   *report
}

// read reads a file of at most limit bytes, which the key at path names.
func (s sideReader) read(path, file string, limit int) (content []byte, ok bool) {
	content, err := s.reader.ReadSide(file, limit)
	if err != nil {
		s.main.Missing(path, "%v", err)
		return nil, false
	}
	return content, true
}

// list reads a file of users, which the key at path names.
func (s sideReader) list(path, file string) (content []byte, ok bool) {
	if file == "" {
		return nil, false
	}
	if filepath.Clean(file) == filepath.Clean(s.reader.Main) {
		s.main.Missing(path, "is the configuration file itself")
		return nil, false
	}
	return s.read(path, file, maxListSize)
}

// place is where a user is written.
type place struct {
	doc  *strictyaml.Document
	path string
}

// userPlaces has the place of each element of Basic.Users and Accounts.Users.
type userPlaces struct{ basic, accounts []place }

// places returns the places of the n elements of a list at path.
func places(doc *strictyaml.Document, path string, n int) []place {
	all := make([]place, n)
	for i := range all {
		all[i] = place{doc, fmt.Sprintf("%s[%d]", path, i)}
	}
	return all
}

// users adds the users of the htpasswd file and the accounts file to those of
// the main file.
func (s sideReader) users(c *Config) userPlaces {
	written := userPlaces{
		basic:    places(s.main.Document, "basic.users", len(c.Basic.Users)),
		accounts: places(s.main.Document, "accounts.users", len(c.Accounts.Users)),
	}
	if content, ok := s.list("basic.htpasswd", c.Basic.Htpasswd); ok {
		doc, users := s.parseHtpasswd(c.Basic.Htpasswd, content)
		c.Basic.Users = append(c.Basic.Users, users...)
		written.basic = append(written.basic, places(doc, doc.Root(), len(users))...)
	}
	if content, ok := s.list("accounts.file", c.Accounts.File); ok {
		var users []Account
		doc := s.reader.Read(c.Accounts.File, content, maxListSize, "accounts.file", &users)
		if doc.Unreadable(doc.Root()) {
			s.main.Break("accounts.file")
		}
		c.Accounts.Users = append(c.Accounts.Users, users...)
		written.accounts = append(written.accounts, places(doc, doc.Root(), len(users))...)
	}
	return written
}

// parseHtpasswd parses an Apache htpasswd file. Each line is NAME:HASH. Empty
// lines and lines that begin with # are skipped.
func (s sideReader) parseHtpasswd(name string, content []byte) (*strictyaml.Document, []BasicUser) {
	doc, ok := s.reader.ReadLines(name, content, maxListSize, "basic.htpasswd", maskHtpasswd)
	if !ok {
		s.main.Break(doc.Root())
		return doc, nil
	}
	var users []BasicUser
	for i, line := range doc.Lines() {
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			continue
		}
		path := fmt.Sprintf("%s[%d]", doc.Root(), len(users))
		user, hash, found := strings.Cut(line, ":")
		doc.Locate(path, i+1, 1)
		doc.Locate(path+".username", i+1, 1)
		doc.Locate(path+".password_hash", i+1, utf8.RuneCountInString(user)+2)
		switch {
		case !found:
			doc.Missing(path, "expected USERNAME:HASH, found a line without a colon")
		case !strings.HasPrefix(hash, "$2"):
			doc.Missing(path+".password_hash", "expected a bcrypt hash, the only supported kind in this file; make it with `htpasswd -B`")
		}
		s.reader.Redact(hash)
		users = append(users, BasicUser{Username: user, PasswordHash: Secret(hash)})
	}
	return doc, users
}

// maskHtpasswd hides the hash in a line of an htpasswd file.
func maskHtpasswd(line string) string {
	name, _, found := strings.Cut(line, ":")
	if !found {
		return line
	}
	return name + ":" + strictyaml.Masked
}

// certificate reads the certificate and its key, and checks that they belong
// together.
func (s sideReader) certificate(t TLS) {
	if t.Mode != TLSFiles {
		return
	}
	pem := func(path, file string) (content []byte, ok bool) {
		if file == "" {
			s.main.Missing(path, "is needed with tls.mode files: the path of a PEM file")
			return nil, false
		}
		return s.read(path, file, maxPEMSize)
	}
	certificate, foundCertificate := pem("tls.certificate", t.Certificate)
	key, foundKey := pem("tls.key", t.Key)
	if !foundCertificate || !foundKey {
		return
	}
	if _, err := tls.X509KeyPair(certificate, key); err != nil {
		s.main.Fault("tls.certificate", "%s and %s are not a certificate and its key: %v", t.Certificate, t.Key, err)
	}
}

// upstreams reads the files of the upstreams' TLS, and checks them.
func (s sideReader) upstreams(upstreams map[string]Upstream) {
	for name, u := range upstreams {
		path, t := strictyaml.Join("upstreams", name)+".tls", &u.TLS
		if t.CA != "" {
			content, ok := s.read(path+".ca", t.CA, maxPEMSize)
			if t.CAContent = content; ok && !x509.NewCertPool().AppendCertsFromPEM(content) {
				s.main.Fault(path+".ca", "%s contains no certificate in PEM", t.CA)
			}
		}
		if t.Certificate != "" && t.Key != "" {
			certificate, foundCertificate := s.read(path+".certificate", t.Certificate, maxPEMSize)
			key, foundKey := s.read(path+".key", t.Key, maxPEMSize)
			if foundCertificate && foundKey {
				if _, err := tls.X509KeyPair(certificate, key); err != nil {
					s.main.Fault(path+".certificate", "%s and %s are not a certificate and its key: %v", t.Certificate, t.Key, err)
				}
			}
			t.CertificateContent, t.KeyContent = certificate, Secret(key)
		}
		upstreams[name] = u
	}
}
