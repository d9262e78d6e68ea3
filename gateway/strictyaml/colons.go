package strictyaml

import (
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/token"
)

// joinColons returns the tokens with each text such as http://h:80, provider:alice or ::1 in one token. Inside of
// "{ }" and "[ ]" together, the scanner cuts it at a ":" that no space follows, and a list of texts would
// become a list of mappings. Keys of "{ }" stay as the scanner cuts them.
func joinColons(tokens token.Tokens) token.Tokens {
	var joined token.Tokens
	var open []token.Type // the brackets around the token
	for i := 0; i < len(tokens); i++ {
		tk := tokens[i]
		switch tk.Type {
		case token.SequenceStartType, token.MappingStartType:
			open = append(open, tk.Type)
		case token.SequenceEndType, token.MappingEndType:
			open = open[:max(0, len(open)-1)]
		case token.MappingValueType:
			if len(open) > 0 && open[len(open)-1] == token.SequenceStartType && i+1 < len(tokens) &&
				isPlain(tokens[i+1]) && follows(tokens[i+1], tk, ":") {
				i++
				joined = joinColon(joined, tk, tokens[i])
				continue
			}
		}
		joined.Add(tk)
	}
	return joined
}

// joinColon adds a colon and the text after it to the text before it, if there is one.
func joinColon(joined token.Tokens, colon, after *token.Token) token.Tokens {
	value, origin, at := ":"+strings.TrimSpace(after.Origin), colon.Origin+after.Origin, colon.Position
	if last := len(joined) - 1; isPlain(joined[last]) && follows(colon, joined[last], joined[last].Value) {
		before := joined[last]
		value, origin, at = strings.TrimSpace(before.Origin)+value, before.Origin+origin, before.Position
		joined = joined[:last]
	} else if before := joined[last].Type; before != token.SequenceStartType && before != token.CollectEntryType {
		joined.Add(colon, after)
		return joined
	}
	joined.Add(token.New(value, origin, at))
	return joined
}

// isPlain reports whether a token is a text without quotes on one line. The scanner leaves a ": " in the text
// b: c of [a:b: c], which is a mapping.
func isPlain(tk *token.Token) bool {
	return tk.Indicator == token.NotIndicator && !strings.Contains(strings.TrimSpace(tk.Origin), "\n") &&
		!strings.Contains(tk.Value, ": ")
}

// follows reports whether a token begins where another one, of this text, ends.
func follows(tk, before *token.Token, text string) bool {
	return tk.Position.Line == before.Position.Line &&
		tk.Position.Column == before.Position.Column+utf8.RuneCountInString(text)
}
