/* Redirects functions of the running nginx: the first 14 bytes of each become a jump. The program
 * on disk stays as it is, and its workers inherit the change. No page is writable and executable at
 * once; nothing else runs nginx's code meanwhile, since it has one thread while it is configured.
 *
 * Only whole functions are replaced and none of the old code is called, so nothing has to be
 * relocated; what is checked is that a jump fits into each and that all are nginx's own. */
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>

#include "ngx_strata.h"

enum { kJumpBytes = 14 };

static void WriteJump(u_char* at, void* to) {
  static const u_char jump[] = {0xff, 0x25, 0, 0, 0, 0}; /* to the address behind it */
  ngx_memcpy(at, jump, sizeof(jump));
  ngx_memcpy(at + sizeof(jump), &to, sizeof(to));
}

/* nginx's, not some library's, and long enough. */
static const char* Complaint(const NgxStrataRedirection* r) {
  Dl_info place, program;
  const ElfW(Sym)* symbol = NULL;
  if (dladdr1(r->from, &place, (void**)&symbol, RTLD_DL_SYMENT) == 0 || symbol == NULL)
    return "is not found";
  if (dladdr((void*)&ngx_cycle, &program) == 0 || place.dli_fbase != program.dli_fbase)
    return "is not nginx's own";
  if (symbol->st_size < kJumpBytes) return "is too short";
  return NULL;
}

static ngx_int_t Protect(u_char* first, u_char* end, int protection) {
  const uintptr_t from = (uintptr_t)first & ~(ngx_pagesize - 1);
  return mprotect((void*)from, (uintptr_t)end - from, protection) == 0 ? NGX_OK : NGX_ERROR;
}

ngx_int_t NgxStrataRedirect(const NgxStrataRedirection* redirections, size_t count,
                            ngx_log_t* log) {
  u_char *first = redirections[0].from, *end = first;
  for (size_t i = 0; i < count; ++i) {
    const char* complaint = Complaint(&redirections[i]);
    if (complaint != NULL) {
      ngx_log_error(NGX_LOG_EMERG, log, 0, "strata: %s %s: no pools on reaps with this nginx",
                    redirections[i].name, complaint);
      return NGX_ERROR;
    }
    u_char* from = redirections[i].from;
    first = ngx_min(first, from);
    end = ngx_max(end, from + kJumpBytes);
  }
  if (Protect(first, end, PROT_READ | PROT_WRITE) != NGX_OK) {
    ngx_log_error(NGX_LOG_EMERG, log, ngx_errno,
                  "strata: nginx's code cannot be made writable: no pools on reaps here");
    return NGX_ERROR;
  }
  for (size_t i = 0; i < count; ++i) WriteJump(redirections[i].from, redirections[i].to);
  if (Protect(first, end, PROT_READ | PROT_EXEC) != NGX_OK) {
    /* There is no way on: the next call into nginx faults. */
    static const char message[] = "strata: nginx's code cannot be made executable again\n";
    (void)!write(STDERR_FILENO, message, sizeof(message) - 1);
    abort();
  }
  return NGX_OK;
}
