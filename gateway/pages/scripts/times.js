// Times in the zone of the browser, as its user writes them in the language of the page: en-GB is
// not en-US. The title names the zone. Without this script times are in UTC, and say so.
{
  const page = document.documentElement.lang;
  const primary = (tag) => tag.split("-")[0].toLowerCase();
  const language = navigator.languages.find((tag) => primary(tag) === primary(page)) || page;
  const short = new Intl.DateTimeFormat(language, { dateStyle: "long", timeStyle: "short" });
  const whole = new Intl.DateTimeFormat(language, { dateStyle: "full", timeStyle: "long" });
  for (const time of document.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    if (!isNaN(at)) {
      time.textContent = short.format(at);
      time.title = whole.format(at);
    }
  }
}
