package config

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"authgate/gateway/pages"
	"authgate/gateway/strictyaml"
)

// maxTextsSize is the largest size of site.texts, in bytes.
const maxTextsSize = 1 << 20

// textsKey is the key of the file with texts.
const textsKey = "site.texts"

// texts reads the file with texts of the operator's own: by the tag of a language, then by name.
func (s sideReader) texts(site *site) {
	if site.Texts == "" {
		return
	}
	if filepath.Clean(site.Texts) == filepath.Clean(s.Reader.Main) {
		s.Main.Missing(textsKey, "is the configuration file itself")
		return
	}
	content, ok := s.Read(textsKey, site.Texts, maxTextsSize)
	if !ok {
		return
	}
	names, err := pages.TextNames()
	if err != nil { // a fault of the program's
		s.Main.Fault(textsKey, "%v", err)
		return
	}
	written := map[string]languageTexts{}
	doc := s.Reader.Read(site.Texts, content, maxTextsSize, textsKey, &written)
	site.Own = pages.Texts{}
	var read []ownTexts
	for _, tag := range slices.Sorted(maps.Keys(written)) {
		path := strictyaml.Join(textsKey, tag)
		language, err := pages.ParseLanguage(tag)
		_, twice := site.Own[language]
		switch {
		case err != nil:
			doc.Fault(path, "%v", err)
		case twice:
			doc.Fault(path, "the language %s is in the file twice", language)
		default:
			site.Own[language] = written[tag]
			read = append(read, ownTexts{doc, path, names, language})
		}
	}
	for _, own := range read {
		own.checkTexts(site.Own)
	}
}

// languageTexts are the texts of one language in the file.
type languageTexts map[string]string

// Description tells where texts belong that are not below a language.
func (languageTexts) Description() string {
	return "the texts of a language below its tag, like en: {signin.title: Welcome}"
}

// publicKeys returns the keys that look like those of secrets but are not. The names of texts are
// among them: some are about passwords.
func publicKeys() []string {
	names, _ := pages.TextNames() // sideReader.texts reports the error
	return append([]string{"htpasswd", "api_tokens"}, names...)
}

// ownTexts are the texts of one language, at a path of their file.
type ownTexts struct {
	doc      *strictyaml.Document
	path     string
	names    []string // of all texts that there can be
	language string
}

// checkTexts checks the texts, which are among all of the file, and that they are enough for their
// language.
func (o ownTexts) checkTexts(all pages.Texts) {
	texts := all[o.language]
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		at := strictyaml.Join(o.path, name)
		if _, known := slices.BinarySearch(o.names, name); !known {
			o.doc.Fault(at, "there is no text %q; %s", name, strictyaml.Hint(name, "texts", o.names))
		} else if o.doc.Broken(at) {
			continue
		} else if err := pages.CheckText(name, texts[name]); err != nil {
			o.doc.Fault(at, "%v", err)
		}
	}
	missing, err := pages.Missing(o.language, all)
	if err != nil {
		o.doc.Fault(o.path, "%v", err)
	} else if len(missing) > 0 {
		const most = 5
		more := ""
		if len(missing) > most {
			more = ", …"
		}
		o.doc.Warn(o.path, "%d texts are missing, and stay English: %s%s", len(missing),
			strings.Join(missing[:min(most, len(missing))], ", "), more)
	}
}
