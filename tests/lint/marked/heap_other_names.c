// What was given back, reached by what was made of it before: places in it, elements of arrays,
// what callers kept, what threads and jumps leave. Lines that are wrong say so.
#include <libgen.h>
#include <pthread.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int value_of(const char* line) {
  char* copy = strdup(line);
  if (!copy) return -1;
  char* equals = strchr(copy, '=');
  if (!equals) {
    free(copy);
    return -1;
  }
  free(copy);
  puts(equals + 1);  // wrong
  equals = strchr(line, '=');
  return equals[1];
}

struct words {
  const char *key, *value;
};

void split(struct words* w, const char* text) {
  char* copy = strdup(text);
  if (!copy) return;
  w->key = strtok(copy, "=");
  w->value = strtok(NULL, "=");
  free(copy);
  if (w->key) puts(w->key);      // wrong
  if (w->value) puts(w->value);  // not known: strtok keeps its place to itself
}

int first_of_base(const char* path) {
  char* copy = strdup(path);
  if (!copy) return 0;
  char* base = strrchr(copy, '/');
  base = base ? base + 1 : copy;
  free(copy);
  return base[0];  // wrong
}

int base_in_time(const char* path) {
  char* copy = strdup(path);
  if (!copy) return 0;
  char* base = basename(copy);
  int first = base[0];
  free(copy);
  base = strrchr(path, '/');
  return base ? base[1] : first;
}

int freed_and_null(const char* text) {
  char* copy = strdup(text);
  if (!copy) return 1;
  char* found = strstr(copy, "x");
  free(copy);
  return found == NULL;
}

struct link {
  struct link* next;
};

struct item {
  int value;
  struct link link;
};

static struct link* made(int value) {
  struct item* i = malloc(sizeof *i);
  if (!i) exit(1);
  i->value = value;
  i->link.next = NULL;
  return &i->link;
}

void free_link(int value) {
  struct link* l = made(value);
  free(l);  // wrong
}

void free_item(int value) {
  struct link* l = made(value);
  free((char*)l - offsetof(struct item, link));
}

void wrong_default(void) {
  char* home = getenv("HOME");
  if (!home) home = strdup("/");
  free(home);  // wrong
}

int rows(int n) {
  int** m = malloc(n * sizeof *m);
  if (!m) return 1;
  for (int i = 0; i < n; i++) {
    m[i] = calloc(n, sizeof(int));
    if (!m[i]) exit(1);
  }
  int sum = m[0][0];
  for (int i = 0; i < n; i++) free(m[i]);
  sum += m[0][0];  // wrong
  free(m);
  return sum;
}

int rows_anew(int n) {
  char* m[4] = {0};
  for (int i = 0; i < 3; i++) m[i] = strdup("a");
  m[3] = strdup("b");
  for (int i = 0; i < 3; i++) free(m[i]);
  int last = m[3] ? m[3][0] : 0;
  for (int i = 0; i < 3; i++) m[i] = strdup("c");
  if (m[0]) last += m[0][0];
  for (int i = 0; i < 4; i++) free(m[i]);
  return last;
}

int by_number(void) {
  char* m[3];
  for (int i = 0; i < 3; i++) m[i] = strdup("a");
  for (int i = 0; i < 3; i++) free(m[i]);
  return m[1][0];  // wrong
}

struct list {
  char** texts;
  int count;
};

static void clear(struct list* l) {
  for (int i = 0; i < l->count; i++) free(l->texts[i]);  // wrong
}

void cleared_twice(struct list* l, int again) {
  clear(l);
  if (again) clear(l);
}

static void empty(struct list* l) {
  for (int i = 0; i < l->count; i++) free(l->texts[i]);
  l->count = 0;
}

void emptied_twice(struct list* l, int again) {
  empty(l);
  if (again) empty(l);
}

void some_freed(char** texts, const int* own, int n) {
  for (int i = 0; i < n; i++) {
    if (own[i]) free(texts[i]);
  }
  for (int i = 0; i < n; i++) {
    if (!own[i]) puts(texts[i]);
  }
}

struct text {
  char* data;
  int own;
};

static void drop(struct text* t) {
  if (t->own) free(t->data);  // wrong
}

void dropped_twice(const char* from, int again) {
  struct text t = {strdup(from), 1};
  if (!t.data) return;
  drop(&t);
  if (again) drop(&t);
}

static void drop_own(struct text* t) {
  if (t->own) free(t->data);
  t->own = 0;
}

void dropped_once(const char* from, int again) {
  struct text t = {strdup(from), 1};
  if (!t.data) return;
  drop_own(&t);
  if (again) drop_own(&t);
}

struct counted {
  int count, value;
};

static struct counted* begin(int value) {
  struct counted* c = malloc(sizeof *c);
  if (!c) return NULL;
  c->count = 1;
  c->value = value;
  return c;
}

static void put(struct counted* c) {
  if (--c->count == 0) free(c);
}

int last_put(int value) {
  struct counted* c = begin(value);
  if (!c) return 0;
  put(c);
  return c->value;  // wrong
}

int first_put(int value) {
  struct counted* c = begin(value);
  if (!c) return 0;
  c->count++;
  put(c);
  value = c->value;
  put(c);
  return value;
}

struct person {
  char* name;
};

static void set_name(struct person* p, const char* name) {
  free(p->name);
  p->name = strdup(name);
}

static const char* name_of(const struct person* p) { return p->name; }

void renamed(struct person* p, const char* name) {
  const char* old = name_of(p);
  if (!old) return;
  set_name(p, name);
  puts(old);  // wrong
}

void named(struct person* p, const char* name) {
  set_name(p, name);
  const char* now = name_of(p);
  if (now) puts(now);
  set_name(p, "nobody");
}

static void* work(void* p) {
  free(p);
  return NULL;
}

int waited(int n) {
  pthread_t thread;
  int* job = malloc(sizeof *job);
  if (!job) return 1;
  *job = n;
  if (pthread_create(&thread, NULL, work, job) != 0) {
    free(job);
    return 1;
  }
  pthread_join(thread, NULL);
  return *job;  // wrong
}

int not_waited(int n) {
  pthread_t thread;
  int* job = malloc(sizeof *job);
  if (!job) return 1;
  *job = n;
  if (pthread_create(&thread, NULL, work, job) != 0) {
    n = *job;
    free(job);
    return n;
  }
  return pthread_join(thread, NULL);
}

static jmp_buf back;
static char *kept, *reset;

static void fail(void) {
  free(kept);
  free(reset);
  reset = NULL;
  longjmp(back, 1);
}

void jumped(int n) {
  kept = malloc(4);
  reset = malloc(4);
  if (!kept || !reset) return;
  if (setjmp(back) != 0) {
    free(reset);
    free(kept);  // wrong
    return;
  }
  if (n) fail();
  free(kept);
  free(reset);
}
